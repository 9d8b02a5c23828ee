import { expect, test } from "bun:test";
import { once } from "node:events";
import { connect, Socket } from "node:net";
import { Clients } from "../../lib/observe/page-clients.ts";
import { type HttpPage, type Pages, servePages, shared } from "../../lib/observe/page-server.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { pause } from "../waiting.ts";

const ok = { "/": async () => ({ status: 200, text: "ok\n" }) };
const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/** Serves pages for one test, with clients that send a text and keep what they get. */
async function serving(pages: Pages, use: (client: (text: string) => Client, url: string) => Promise<void>) {
  const { port, close } = await servePages("the page", { host: "127.0.0.1", port: 0 }, pages, testCall().log);
  const clients: Client[] = [];
  try {
    await use(text => {
      const each = new Client(port, text);
      clients.push(each);
      return each;
    }, `http://127.0.0.1:${port}/`);
  } finally {
    for (const { socket } of clients) socket.destroy();
    close();
  }
}

class Client {
  readonly socket: Socket;
  readonly closed: Promise<string>;
  isClosed = false;
  #text = "";

  constructor(port: number, text: string) {
    this.socket = connect({ host: "127.0.0.1", port });
    this.socket.on("error", () => {});
    this.socket.on("data", chunk => {
      this.#text += chunk.toString();
    });
    this.closed = new Promise(resolve =>
      this.socket.on("close", () => {
        this.isClosed = true;
        resolve(this.#text);
      }),
    );
    this.socket.write(text);
  }
}

const answers = (text: string): number => text.split("HTTP/1.1 ").length - 1;

test("of many requests that one connection sends at once, the first is answered, and no other is begun", async () => {
  let begun = 0;
  const pages = {
    "/": async (): Promise<HttpPage> => {
      begun++;
      return { status: 200, text: "ok\n" };
    },
  };
  await serving(pages, async client => {
    expect(answers(await client(get.repeat(300)).closed)).toBe(1);
    expect(begun).toBe(1);
    await client(get.repeat(20_000)).closed;
    expect(begun).toBe(2);
    expect(await client(get).closed).toContain("ok\n");
  });
}, 60_000);

test("a client that sends on while its answer is made is closed; one that only ends its side gets the answer", async () => {
  let begun = 0;
  let finish = (): void => {};
  const waiting = new Promise<void>(resolve => {
    finish = resolve;
  });
  const pages = {
    "/": async (): Promise<HttpPage> => {
      begun++;
      await waiting;
      return { status: 200, text: "at last\n" };
    },
  };
  await serving(pages, async client => {
    const ended = client("");
    ended.socket.end(get);
    expect(await client(get.repeat(100_000)).closed).toBe("");
    finish();
    expect(await ended.closed).toContain("at last");
    expect(begun).toBe(2);
  });
}, 60_000);

test("clients that send nothing, or half a request, keep no one else out", async () => {
  await serving(ok, async (client, url) => {
    const silent = Array.from({ length: 600 }, (_, at) => client(at % 2 === 0 ? "" : "GET / HT"));
    await Promise.all(silent.map(({ socket }) => once(socket, "connect")));
    expect((await fetch(url)).status).toBe(200);
  });
}, 60_000);

test("with one connection too many, the oldest that waits for a request is closed; none that is being answered", () => {
  const clients = new Clients(3);
  const sockets = Array.from({ length: 8 }, () => new Socket());
  const [busy, second, third, fourth, ...others] = sockets as [Socket, Socket, Socket, Socket];
  /** What is open, by position. */
  const isOpen = () => sockets.map(each => (each.destroyed ? "-" : "x")).join("");
  clients.add(busy);
  clients.asked(busy);
  clients.add(second);
  clients.add(third);
  expect(isOpen()).toBe("xxxxxxxx");
  clients.add(fourth);
  expect(isOpen()).toBe("x-xxxxxx");
  for (const each of others.slice(0, 2)) clients.add(each);
  expect(isOpen()).toBe("x---xxxx");
  for (const each of sockets.slice(4, 6)) clients.asked(each);
  // All are being answered: the newest has to go.
  clients.add(sockets[6] as Socket);
  expect(isOpen()).toBe("x---xx-x");
  clients.closeAll();
  expect(isOpen()).toBe("-------x");
});

test("clients that do not read their answers keep no one out: with one connection too many, the oldest of them is closed", () => {
  const clients = new Clients(3);
  const sockets = Array.from({ length: 5 }, () => new Socket());
  const isOpen = () => sockets.map(each => (each.destroyed ? "-" : "x")).join("");
  for (const each of sockets.slice(0, 3)) {
    clients.add(each);
    clients.asked(each);
    clients.answered(each, 6);
  }
  clients.add(sockets[3] as Socket);
  expect(isOpen()).toBe("-xxxx");
  // The newest waits for its first bytes; two that have their answer are more.
  clients.add(sockets[4] as Socket);
  expect(isOpen()).toBe("--xxx");
  clients.closeAll();
});

test("a client has ten seconds for its request", async () => {
  let now = 0;
  const clients = new Clients(3, () => now);
  const [first, second] = [new Socket(), new Socket()];
  const isGone = async (socket: Socket) => {
    const end = performance.now() + 10_000;
    while (!socket.destroyed && performance.now() < end) await pause(10);
    return socket.destroyed;
  };
  clients.add(first);
  now = 6_000;
  clients.add(second);
  now = 10_000;
  expect(await isGone(first)).toBe(true);
  expect(second.destroyed).toBe(false);
  now = 16_000;
  expect(await isGone(second)).toBe(true);
  clients.closeAll();
}, 60_000);

test("of answers that are not read, the oldest are given up when there are too many bytes", () => {
  const clients = new Clients(10);
  const sockets = Array.from({ length: 4 }, () => new Socket());
  const answers = sockets.map(each => {
    clients.add(each);
    clients.asked(each);
    clients.answered(each, 3 << 20);
    return sockets.map(other => (other.destroyed ? "-" : "x")).join("");
  });
  // 8 MiB in all.
  expect(answers).toEqual(["xxxx", "xxxx", "-xxx", "--xx"]);
  clients.closeAll();
});

test("clients that do not read their answers keep no one else out, and an answer in progress is not cut off", async () => {
  let finish = (): void => {};
  const waiting = new Promise<void>(resolve => {
    finish = resolve;
  });
  const pages = {
    "/": async () => ({ status: 200, text: "x".repeat(1 << 20) }),
    "/slow": async () => {
      await waiting;
      return { status: 200, text: "at last\n" };
    },
  };
  await serving(pages, async (client, url) => {
    const slow = client("GET /slow HTTP/1.1\r\n\r\n");
    await once(slow.socket, "connect");
    for (let round = 0; round < 4; round++) {
      const unread = Array.from({ length: 40 }, () => client(get));
      for (const { socket } of unread) socket.pause();
      await Promise.all(unread.map(({ socket }) => once(socket, "connect")));
      expect((await (await fetch(url)).text()).length).toBe(1 << 20);
    }
    finish();
    expect(await slow.closed).toContain("at last");
  });
}, 60_000);

test("a request is read as HTTP/1.1 says, in any pieces; what could be read in two ways is refused", async () => {
  const seen: unknown[] = [];
  const pages = {
    "/": async (request: unknown) => {
      seen.push(request);
      return { status: 200, text: "ok\n" };
    },
  };
  const from = "127.0.0.1";
  await serving(pages, async client => {
    const pieces = client("");
    for (const each of "GET /?a=b HTTP/1.1\r\nhOsT:  x:1 \r\nAuthorization: Bearer a b\r\n\r\n")
      pieces.socket.write(each);
    expect(await pieces.closed).toMatch(
      /^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\nContent-Length: 3\r\nConnection: close\r\n[^\n]*\r\n\r\nok\n$/,
    );
    expect(seen).toEqual([{ from, headers: { host: "x:1", authorization: "Bearer a b" } }]);
    const wrong = [
      "hello",
      "GET / HTTP/2",
      "GET / HTTP/1.1\r\nHost: a\r\nHOST: b",
      "GET / HTTP/1.1\r\n a: b",
      `GET / HTTP/1.1\r\na: ${"b".repeat(1 << 20)}`,
    ];
    for (const each of wrong)
      expect([each, (await client(`${each}\r\n\r\n`).closed).slice(0, 12)]).toEqual([each, "HTTP/1.1 400"]);
    expect(await client("POST / HTTP/1.1\r\n\r\n").closed).toStartWith("HTTP/1.1 404 ");
    expect(await client("GET /__proto__ HTTP/1.1\r\n\r\n").closed).toStartWith("HTTP/1.1 404 ");
    expect(seen.length).toBe(1);
    const head = await client("HEAD / HTTP/1.1\r\n\r\n").closed;
    expect(head).toMatch(/^HTTP\/1\.1 200 OK\r\n.*Content-Length: [1-9].*\r\n\r\n$/s);
  });
}, 60_000);

test("who asks while an answer is made gets the same one; the next one is made again, also after a failure", async () => {
  let made = 0;
  const once = shared(async () => {
    await Promise.resolve();
    if (++made === 2) throw new Error("the second fails");
    return made;
  });
  expect(await Promise.all([once(), once(), once()])).toEqual([1, 1, 1]);
  const failed = await Promise.allSettled([once(), once()]);
  expect(failed.map(each => each.status)).toEqual(["rejected", "rejected"]);
  expect(await once()).toBe(3);
});
