import { afterAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { CopyByStream } from "../../lib/copies/copy-work.ts";
import { transferHere } from "../../lib/copies/stream-pipe.ts";
import { copyByStream } from "../../lib/copies/zfs-send.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { localRunner } from "../../lib/io/local.ts";
import { localHost } from "../../lib/io/local-host.ts";
import { CopyStorage, copyDriver } from "../fakes/memory-copies.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { asked, copyProcess, until, untilSaid } from "./copy-world.ts";
import { make } from "./pair.ts";
import { type FileStorage, fileStorage, receive } from "./stream-rig.ts";

const here = localHost(localRunner({ env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" } }));
const made: FileStorage[] = [];
afterAll(() => Promise.all(made.map(each => each.remove())));

/** What zfs-send(8) with -v and -P prints each second. */
const line = (bytes: string) => `printf '12:00:01\\t%s\\ttank/a@m\\n' ${bytes} >&2`;
const shell = (text: string) => ({ host: here, argv: ["sh", "-c", text] as const });
const limits = { stallMs: 400, graceMs: 300 };

describe("a stream within one machine", () => {
  test("tells of its bytes by the lines of its sender", async () => {
    const seen: bigint[] = [];
    const enough = join(await mkdtemp(join(tmpdir(), "csimux-here-")), "enough");
    const slow = `i=0; while [ ! -e ${enough} ]; do i=$((i + 1)); ${line("$((i * 1000000))")}; sleep 0.1; done`;
    const progress = (bytes: bigint) => {
      seen.push(bytes);
      if (bytes > (seen[0] ?? 0n)) writeFileSync(enough, "");
    };
    const patient = { ...limits, stallMs: 2_000 };
    const fine = await transferHere(shell(slow), shell("cat"), progress, testCall(), patient);
    await rm(dirname(enough), { recursive: true });
    expect(fine).toEqual({ isComplete: true, failures: [], isStalled: false });
    expect(seen.toSorted((a, b) => Number(a - b))).toEqual(seen);
    expect(seen.map(each => each % 1_000_000n)).toEqual(seen.map(() => 0n));
  });

  test.each([
    ["says nothing", "sleep 600"],
    ["says the same number", `while sleep 0.1; do ${line("1000000")}; done`],
  ])("is ended if its sender %s for too long", async (_, text) => {
    const stuck = await transferHere(shell(text), shell("cat"), () => {}, testCall(), limits);
    expect([stuck.isStalled, stuck.isComplete]).toEqual([true, false]);
  });

  test("is the only one whose sender is asked for these lines", async () => {
    for (const method of ["zfs-send-local", "zfs-send"] as const) {
      const files = await fileStorage(here, here, { bytes: 100_000 });
      made.push(files);
      const told: (boolean | undefined)[] = [];
      const open: typeof files.source.open = (snapshot, start, basic, tells) => {
        told.push(tells);
        return files.source.open(snapshot, start, basic);
      };
      await copyByStream(files.work({ method, source: { ...files.source, machine: "b", open } }), testCall());
      expect([await files.isCopied(), told]).toEqual([true, [method === "zfs-send-local"]]);
    }
  });

  test("of a later pass never takes the basic form, with which parts of files would be zeros", async () => {
    const words = "cannot receive new filesystem stream: pool must be upgraded to receive this stream.";
    const files = await fileStorage(here, here, {
      bytes: 1_000,
      receive: `cat >/dev/null; echo "${words}" >&2; exit 1`,
    });
    made.push(files);
    const work = files.work({ method: "zfs-send", earlier: { name: "tank/v@before", proof: "1" } });
    expect(await copyByStream(work, testCall()).catch(String)).toContain(words);
    expect(files.opened.map(({ basic }) => basic)).toEqual([false]);
  });

  test("is noted to have the basic form before it begins, because an attempt that continues it does not learn that", async () => {
    const words = "cannot receive new filesystem stream: pool must be upgraded to receive this stream.";
    const old = `[ -n "$3" ] || { cat >/dev/null; echo "${words}" >&2; exit 1; }; ${receive}`;
    const files = await fileStorage(here, here, { bytes: 1_000, receive: old });
    made.push(files);
    const noted: number[] = [];
    const simplified = async () => void noted.push(files.opened.length);
    expect(await copyByStream(files.work({ simplified }), testCall())).toEqual({ basic: true });
    expect([noted, files.opened.map(({ basic }) => basic)]).toEqual([[1], [false, true]]);
  });

  test("that was interrupted in the basic form has it in later attempts, too", async () => {
    const [from, to] = [new CopyStorage(), new CopyStorage()];
    from.volumes.set("source", { content: "x", bytes: 1n << 20n });
    const forms: boolean[] = [];
    const stream: CopyByStream = async ({ id, snapshot, basic, simplified }) => {
      forms.push(basic);
      if (!basic) {
        await simplified();
        throw new CsiError("unavailable", "the connection was interrupted");
      }
      Object.assign(to.targets.get(id) ?? {}, { content: "x", proof: snapshot.proof, isWhole: true });
      return { basic };
    };
    const drivers = new Map([
      ["a", () => copyDriver(from, "one")],
      ["b", () => copyDriver(to, "one")],
    ]);
    const one = copyProcess({ drivers, stream });
    expect((await asked(() => make(one))).id).toBe("v:b/copy");
    expect(forms).toEqual([false, true]);
    await one.stop(1_000);
  });

  test("is seen with its progress, and as one that stands still", async () => {
    const [from, to] = [new CopyStorage(), new CopyStorage()];
    from.volumes.set("source", { content: "x".repeat(100), bytes: 1n << 20n });
    const end = Promise.withResolvers<void>();
    const stream: CopyByStream = async ({ id, snapshot, basic, progress }) => {
      progress(40n);
      await end.promise;
      Object.assign(to.targets.get(id) ?? {}, { content: "x".repeat(100), proof: snapshot.proof, isWhole: true });
      return { basic };
    };
    const drivers = new Map([
      ["a", () => copyDriver(from, "one")],
      ["b", () => copyDriver(to, "one")],
    ]);
    const one = copyProcess({ drivers, stream, times: { stalled: 1 } });
    await untilSaid(() => make(one), 'is being copied from connection "a" (zfs-send-local): 40 B of 100 B');
    await until(() => one.copies.view().running[0]?.stalled === true);
    expect(one.copies.view().running).toMatchObject([{ method: "zfs-send-local", done: 40, total: 100 }]);
    end.resolve();
    expect((await asked(() => make(one))).id).toBe("v:b/copy");
    expect(one.copies.view().copied).toEqual([{ from: "a", to: "b", method: "zfs-send-local", bytes: 100 }]);
    await one.stop(1_000);
  });
});
