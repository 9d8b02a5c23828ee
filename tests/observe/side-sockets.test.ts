import { afterEach, beforeEach, expect, test } from "bun:test";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Log } from "../../lib/core/call.ts";
import { keepSecret } from "../../lib/core/secrets.ts";
import { CallTracker } from "../../lib/observe/call-tracker.ts";
import { serveCommands } from "../../lib/observe/command-socket.ts";
import { servePages } from "../../lib/observe/page-server.ts";
import { statusOf } from "../../lib/observe/status.ts";
import { askStatus, serveStatus } from "../../lib/observe/status-socket.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { pause } from "../waiting.ts";

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

test("a status stays JSON while a secret consists of digits, and shows no secret in its texts", async () => {
  const { log } = logged();
  const path = join(folder, "csi.sock.status");
  const forget = keepSecret(["2026"]);
  const shown = { ...details, config: "/c/2026", log: ["120260000"] };
  const status = () => ({
    ...statusOf({ ...facts, started: 120_260_000 }, {}, new CallTracker()),
    details: shown,
    figure: 120_260_000,
  });
  const { close } = await serveStatus(path, status, log);
  try {
    const answer = await askStatus(path, 10_000);
    expect(answer).toMatchObject({ name: "c", figure: 120_260_000, details: { config: "/c/***", log: ["1***0000"] } });
  } finally {
    close();
    forget();
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

test("clients of the command socket that neither send nor leave are closed", async () => {
  const path = join(folder, "csi.sock.command");
  const { close } = await serveCommands(path, async () => {}, logged().log, 50);
  const peers = Array.from({ length: 20 }, () => connect({ path, allowHalfOpen: true }));
  try {
    const texts = peers.map(async peer => {
      let text = "";
      let isClosed = false;
      peer.on("data", chunk => {
        text += chunk.toString();
      });
      peer.on("error", () => {
        isClosed = true;
      });
      await once(peer, "end");
      // This side stays open; what is written arrives nowhere as soon as the server has closed the other one.
      const end = performance.now() + 20_000;
      while (!isClosed && performance.now() < end) {
        peer.write("x");
        await pause(10);
      }
      return isClosed ? text : "still open";
    });
    for (const peer of peers.slice(10)) peer.write("{");
    for (const text of await Promise.all(texts)) expect(text).toContain("the command socket got no request in time");
  } finally {
    for (const peer of peers) peer.destroy();
    close();
  }
}, 60_000);
