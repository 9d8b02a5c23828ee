import { describe, expect, test } from "bun:test";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { HostNames } from "../../lib/io/host-names.ts";
import { pause } from "../waiting.ts";

const found = [{ address: "127.0.0.1", family: 4 }];

/** Names of which those in the dead zone are not answered before `giveUp`. */
function halfDead() {
  const asked: string[] = [];
  const held: (() => void)[] = [];
  let now = 0;
  const names = new HostNames(
    async host => {
      asked.push(host);
      if (!host.endsWith(".dead")) return found;
      await new Promise<void>(resolve => held.push(resolve));
      throw Object.assign(new Error(`getaddrinfo EAI_AGAIN ${host}`), { code: "EAI_AGAIN" });
    },
    () => now,
  );
  /** The name servers fail all that asked them, and those that ask then, until `all` have ended. */
  const giveUp = async (all: Promise<unknown>): Promise<unknown> => {
    let ended = false;
    void all.then(() => {
      ended = true;
    });
    while (!ended) {
      now += 10_000;
      for (const each of held.splice(0)) each();
      await pause(1);
    }
    return all;
  };
  return { names, asked, giveUp };
}

const dead = Array.from({ length: 40 }, (_, index) => `nas${index}.dead`);

describe("names that no name server answers", () => {
  test("are asked for a few at a time, so that threads are left for files", async () => {
    const { names, asked, giveUp } = halfDead();
    const all = Promise.allSettled(dead.map(host => names.addressesOf(host)));
    expect(asked).toHaveLength(6);
    await giveUp(all);
    expect(asked).toEqual(dead);
    expect((await all).every(({ status }) => status === "rejected")).toBe(true);
  });

  test("do not keep the others waiting once they have failed", async () => {
    const { names, asked, giveUp } = halfDead();
    await giveUp(Promise.allSettled(dead.map(host => names.addressesOf(host))));
    asked.length = 0;
    const again = Promise.allSettled(dead.map(host => names.addressesOf(host)));
    expect(await names.addressesOf("nas.alive")).toEqual(found);
    expect(asked).toEqual(["nas0.dead", "nas1.dead", "nas.alive"]);
    await giveUp(again);
  });

  test("hold one thread each, however many ask", async () => {
    const { names, asked, giveUp } = halfDead();
    await giveUp(Promise.allSettled([1, 2, 3].map(() => names.addressesOf("nas.dead"))));
    expect(asked).toEqual(["nas.dead"]);
  });
});

test("a socket connects to the address of a name, or fails with the error of its resolution", async () => {
  const server = createServer(socket => socket.destroy()).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  const { names, giveUp } = halfDead();
  const socket = connect({ host: "nas.alive", port, lookup: names.lookup });
  await once(socket, "connect");
  socket.destroy();
  const error = once(connect({ host: "nas.dead", port, lookup: names.lookup }), "error");
  expect(await giveUp(error)).toMatchObject([{ code: "EAI_AGAIN" }]);
  server.close();
});
