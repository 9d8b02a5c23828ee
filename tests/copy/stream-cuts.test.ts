import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyByStream } from "../../lib/copies/zfs-send.ts";
import type { CsiError } from "../../lib/core/errors.ts";
import type { StorageHost } from "../../lib/io/script.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { hosts, until } from "../io/ssh/rig.ts";
import { type Sshd, signal, startSshd } from "../io/ssh/sshd.ts";
import { fileStorage, processes, sendSlowly } from "./stream-rig.ts";

/** Two seconds each. */
const most = process.env["CSIMUX_FUZZ"] === "all" ? 50 : 8;
const opened = hosts();
let one: Sshd;
let two: Sshd;
let a: StorageHost;
let b: StorageHost;

beforeAll(async () => {
  [one, two] = await Promise.all([startSshd(), startSshd()]);
  a = opened.hosts.lease(one.settings()).value;
  b = opened.hosts.lease(two.settings()).value;
});
afterAll(async () => {
  await opened.hosts.close();
  await Promise.all([one.stop(), two.stop()]);
});

test("a stream that is cut at random places continues each time, and its content is equal", async () => {
  const files = await fileStorage(a, b, { send: sendSlowly, bytes: 24_000_000 });
  let seed = Number(process.env["CSIMUX_SEED"] ?? 5);
  const random = (most: number): number => {
    seed = (seed * 1103515245 + 12345) % 2 ** 31;
    return seed % most;
  };
  const sessionsOf = (sshd: Sshd | undefined, name: RegExp) =>
    processes().filter(({ pid, name: comm }) => name.test(comm) && (sshd?.sessions().includes(pid) ?? false));
  const victims: Readonly<Record<string, () => readonly { readonly pid: number }[]>> = {
    "an ssh of this machine": () => processes().filter(({ parent, name }) => parent === process.pid && name === "ssh"),
    "the connection of the source": () => sessionsOf(one, /^sshd/),
    "the connection of the target": () => sessionsOf(two, /^sshd/),
    "the program of the source": () => sessionsOf(one, /^(sh|dd)$/),
    "the program of the target": () => sessionsOf(two, /^(sh|cat)$/),
  };
  let cuts = 0;
  for (let tries = 0; cuts < most && tries < 3 * most; tries++) {
    const call = new AbortController();
    const wanted = (await files.partBytes()) + 1 + random(400_000);
    let over = false;
    const running = copyByStream(files.work(), testCall(call.signal))
      .then(
        () => "whole",
        (error: CsiError) => error.code,
      )
      .finally(() => {
        over = true;
      });
    await until("some more has arrived", async () => over || (await files.partBytes()) >= wanted);
    const kinds = Object.values(victims);
    const which = random(kinds.length + 1);
    if (which === kinds.length) call.abort();
    else {
      const found = kinds[which]?.() ?? [];
      const chosen = found[random(Math.max(1, found.length))];
      if (chosen) signal(chosen.pid, random(2) === 0 ? "SIGKILL" : "SIGTERM");
    }
    const how = await running;
    if (how !== "whole") {
      expect(["unavailable", "aborted"]).toContain(how);
      cuts++;
    } else {
      expect(await files.isCopied()).toBe(true);
      await files.forget();
    }
  }
  expect(cuts).toBe(most);
  await copyByStream(files.work(), testCall());
  expect(await files.isCopied()).toBe(true);
  expect(files.asked).not.toContain("discard");
  await files.remove();
}, 600_000);
