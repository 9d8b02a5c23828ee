import { afterEach, beforeEach, expect, test } from "bun:test";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Log } from "../../lib/core/call.ts";
import { CallTracker } from "../../lib/observe/call-tracker.ts";
import { servePages } from "../../lib/observe/page-server.ts";
import { statusOf } from "../../lib/observe/status.ts";
import { askStatus, serveStatus } from "../../lib/observe/status-socket.ts";
import { testCall } from "../fakes/memory-driver.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "csimux-side-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** A log that keeps its errors. */
function logged() {
  const errors: string[] = [];
  const keep = (message: string, fields?: object) => void errors.push(`${message} ${JSON.stringify(fields)}`);
  const log: Log = { ...testCall().log, error: keep };
  return { log, errors };
}

const facts = { name: "c", version: "1", commit: "1", modes: [], node: undefined, started: 0 };
const details = { config: "/c", state: "/s", prefix: "c", metrics: undefined, log: [] };

test("a status that cannot be collected is an error in the log; the client gets a reference to the log, and the next one an answer", async () => {
  const { log, errors } = logged();
  const path = join(folder, "csi.sock.status");
  let broken = true;
  const status = () => {
    if (broken) throw new TypeError("a defect");
    return { ...statusOf(facts, {}, new CallTracker()), details };
  };
  const { close } = await serveStatus(path, status, log);
  try {
    const failed = await askStatus(path, 10_000).catch((error: Error) => error.message);
    expect(failed).toBe(`${path} returned no status; see the log of csimux`);
    expect(errors).toEqual([expect.stringContaining("TypeError: a defect")]);
    broken = false;
    expect((await askStatus(path, 10_000)).name).toBe("c");
  } finally {
    close();
  }
});

test("a request for the volumes reaches the status; a peer that sends nothing, too little or too much gets the status alone", async () => {
  const { log } = logged();
  const path = join(folder, "csi.sock.status");
  const asked: string[] = [];
  const status = async (request: string) => {
    asked.push(request);
    return { ...statusOf(facts, {}, new CallTracker()), details };
  };
  const { close } = await serveStatus(path, status, log);
  try {
    expect((await askStatus(path, 20_000, "volumes")).name).toBe("c");
    expect((await askStatus(path, 20_000)).name).toBe("c");
    for (const text of ["", "volumes", "x".repeat(1 << 20)]) {
      const peer = connect({ path });
      const chunks: Buffer[] = [];
      peer.on("data", chunk => chunks.push(Buffer.from(chunk)));
      peer.write(text);
      await once(peer, "end");
      peer.destroy();
      expect(JSON.parse(Buffer.concat(chunks).toString()).name).toBe("c");
    }
    expect(asked).toEqual(["volumes", "status", "status", "status", "status"]);
  } finally {
    close();
  }
}, 60_000);

test("a page that cannot be made is an error in the log and a 500 without its text", async () => {
  const { log, errors } = logged();
  const failing = async () => {
    throw new TypeError("a defect");
  };
  const { port, close } = await servePages("metrics", { host: "127.0.0.1", port: 0 }, { "/metrics": failing }, log);
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`);
    expect([answer.status, await answer.text()]).toEqual([500, "cannot generate the page; see the log of csimux\n"]);
    expect(errors).toEqual([expect.stringContaining("TypeError: a defect")]);
  } finally {
    close();
  }
});

test("of many peers at once that keep their connections, only a limited number is served", async () => {
  const pages = { "/": async () => ({ status: 200, text: "ok\n" }) };
  const { port, close } = await servePages("the page", { host: "127.0.0.1", port: 0 }, pages, logged().log);
  const peers = Array.from({ length: 300 }, () => connect({ host: "127.0.0.1", port }));
  try {
    const results = await Promise.all(
      peers.map(
        peer =>
          new Promise<"served" | "closed">(resolve => {
            peer.once("data", () => resolve("served"));
            peer.once("close", () => resolve("closed"));
            peer.on("error", () => resolve("closed"));
            peer.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
          }),
      ),
    );
    const served = results.filter(each => each === "served").length;
    expect(served).toBeGreaterThan(0);
    expect(served).toBeLessThan(300);
  } finally {
    for (const peer of peers) peer.destroy();
    close();
  }
}, 60_000);
