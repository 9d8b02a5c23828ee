import { expect, test } from "bun:test";
import { open, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { random } from "../../lint/mutants.ts";
import { mebibytes, status, type World } from "../../serve/world.ts";
import { startCsimux } from "../rig.ts";
import { run, waitFor } from "../run.ts";
import { byNode, zfsDrivers } from "../zfs/zfs-drivers.ts";
import { storageHost } from "../zfs/zfs-host.ts";
import { deleteSnapshot, deleteVolume, makeSnapshot, makeVolume } from "../zfs/zfs-pool.ts";
import { blocksOf, namedBytes, restored } from "./block-ranges.ts";

// The lists of blocks, applied as a backup tool does: every pair of snapshots, after random writes and discards, on clones and after a promotion.

const fileOf = storageHost();

const block = 4096;
const limitMs = 3_000_000;

/** The volumes of a connection on this machine, and what they hold. */
class Disks {
  readonly #world: World;
  readonly #parent: string;
  readonly #pick = random(20260611);

  constructor(world: World, connection: string) {
    this.#world = world;
    this.#parent = `tank/${connection}/v`;
  }

  async device(volumeId: string): Promise<string> {
    const path = `/dev/zvol/${this.#parent}/${volumeId.split("/")[1]}`;
    return waitFor(path, async () => ((await run(["sh", "-c", `[ -b ${path} ] && echo yes || :`])) ? path : undefined));
  }

  /** Writes at random, discards, and writes zeroes; with `cut` also discards the end. */
  async change(volumeId: string, cut: boolean): Promise<void> {
    const device = await this.device(volumeId);
    const size = await this.#sizeOf(device);
    const file = await open(device, "r+");
    try {
      for (let left = 6 + this.#pick(8); left > 0; left--) {
        const length = 1 + this.#pick(16 * block);
        const content = Buffer.alloc(length, this.#pick(6) === 0 ? 0 : 1 + this.#pick(255));
        await file.write(content, 0, length, this.#pick(size - length));
      }
      await file.sync();
    } finally {
      await file.close();
    }
    for (let left = 1 + this.#pick(3); left > 0; left--) {
      const length = (1 + this.#pick(64)) * block;
      await this.discard(device, Math.floor(this.#pick(size - length) / block) * block, length);
    }
    const end = Math.floor(this.#pick(size) / block) * block;
    if (cut) await this.discard(device, end, size - end);
  }

  async discard(device: string, offset: number, length: number): Promise<void> {
    // A target holds its zvol, which blkdiscard would open for itself.
    await run(["blkdiscard", "--force", "-o", String(offset), "-l", String(length), device]);
  }

  /** Takes a snapshot, with what it holds: nothing writes meanwhile. */
  async snapshot(volumeId: string, name: string): Promise<{ readonly id: string; readonly image: Buffer }> {
    await run(["sync"]);
    const copy = join(tmpdir(), "image");
    await run(["dd", `if=${await this.device(volumeId)}`, `of=${copy}`, "bs=1M", "iflag=direct", "status=none"]);
    const image = await readFile(copy);
    await rm(copy);
    return { id: await makeSnapshot(this.#world, volumeId, name), image };
  }

  async #sizeOf(device: string): Promise<number> {
    return Number(await run(["blockdev", "--getsize64", device]));
  }
}

/** A snapshot and its content. */
type Taken = Awaited<ReturnType<Disks["snapshot"]>>;

/** Compares the list of all blocks of a snapshot with its content. */
async function proveAll(world: World, { id, image }: Taken): Promise<void> {
  const all = await blocksOf(world, id);
  expect([id, all.code, all.details]).toEqual([id, 0, "OK"]);
  expect([id, restored(Buffer.alloc(0), image, all).equals(image)]).toEqual([id, true]);
}

/** Compares the list of changes between two snapshots with their contents; returns the bytes that it names. */
async function proveDelta(world: World, base: Taken, target: Taken): Promise<number> {
  const delta = await blocksOf(world, target.id, base.id);
  const pair = `${base.id} to ${target.id}`;
  expect([pair, delta.code, delta.details]).toEqual([pair, 0, "OK"]);
  expect([pair, restored(base.image, target.image, delta).equals(target.image)]).toEqual([pair, true]);
  return namedBytes(delta);
}

/** The bytes of blocks that differ. */
function differing(base: Buffer, target: Buffer): number {
  let sum = 0;
  for (let at = 0; at < target.length; at += block) {
    const wanted = target.subarray(at, at + block);
    const old = at < base.length ? base.subarray(at, at + block) : Buffer.alloc(block);
    if (!wanted.equals(old)) sum += block;
  }
  return sum;
}

const cases = [
  { connection: "zvol", snapshots: 15 },
  { connection: "iscsi", snapshots: 5 },
  { connection: "nvmeof", snapshots: 3 },
].map(each => ({ ...each, driver: zfsDrivers.find(({ connection }) => connection === each.connection) }));

test.each(cases)(
  "every pair of $snapshots snapshots of $connection: the earlier one with the blocks of the list is the later one",
  async ({ connection, snapshots, driver }) => {
    if (!driver) throw new Error(`there is no ${connection}`);
    const connections = { [connection]: fileOf(driver).replace("zfs:\n", "zfs:\n  zvolBlocksize: 4K\n") };
    const world = await startCsimux({ connections, ...(connection === "zvol" && { proxy: byNode }) });
    const disks = new Disks(world, connection);
    try {
      const { volumeId } = await makeVolume(world, connection, "pvc-1", { size: 8 });
      const taken: Taken[] = [];
      for (let at = 0; at < snapshots; at++) {
        const capacityRange = mebibytes(12);
        if (at === Math.floor(snapshots / 2))
          await world.controller("controllerExpandVolume", { volumeId, capacityRange }, 120_000);
        if (at > 0) await disks.change(volumeId, at % 4 === 3);
        taken.push(await disks.snapshot(volumeId, `s${at}`));
      }
      for (const each of taken) await proveAll(world, each);
      let [pairs, named, different] = [0, 0, 0];
      for (const [at, base] of taken.entries())
        for (const target of taken.slice(at + 1)) {
          named += await proveDelta(world, base, target);
          different += differing(base.image, target.image);
          pairs++;
        }
      process.stderr.write(
        `${connection}: ${pairs} pairs; the lists name ${named} bytes, of which ${different} differ\n`,
      );

      // Continued in the middle of a range, a list ends as the whole one does.
      const [first, last] = [taken[0], taken.at(-1)];
      if (!first || !last) throw new Error("no snapshots");
      const whole = await blocksOf(world, last.id, first.id);
      const middle = whole.ranges[Math.floor(whole.ranges.length / 2)];
      const from = (middle?.offset ?? 0n) + BigInt(block);
      const rest = await blocksOf(world, last.id, first.id, from);
      const behind = (list: typeof whole) => restored(first.image, last.image, list).subarray(Number(from));
      expect(behind(rest).equals(behind(whole))).toBe(true);
      expect((rest.ranges[0]?.offset ?? 0n) >= from).toBe(true);
      expect((await blocksOf(world, first.id, last.id)).code).toBe(status.invalidArgument);
      expect((await blocksOf(world, last.id, first.id, BigInt(1 << 30))).code).toBe(status.outOfRange);

      // A clone, whose blocks are those of its origin until they are written.
      const origin = taken[Math.floor(snapshots / 2)];
      const clone = await makeVolume(world, connection, "pvc-2", { from: { snapshot: origin?.id ?? "" }, size: 12 });
      const ofClone: Taken[] = [];
      for (const name of ["c0", "c1", "c2"]) {
        if (name !== "c0") await disks.change(clone.volumeId, name === "c2");
        ofClone.push(await disks.snapshot(clone.volumeId, name));
      }
      const proveClone = async () => {
        for (const [at, base] of ofClone.entries())
          for (const target of ofClone.slice(at + 1)) await proveDelta(world, base, target);
        for (const each of ofClone) await proveAll(world, each);
      };
      await proveClone();
      expect((await blocksOf(world, ofClone[2]?.id ?? "", origin?.id)).code).toBe(status.invalidArgument);

      // Promoted, it takes the snapshots of its origin along; what is left keeps its lists.
      await run(["zfs", "promote", `tank/${connection}/v/pvc-2`]);
      await proveClone();
      const later = taken.slice(Math.floor(snapshots / 2) + 1);
      for (const [at, base] of later.entries())
        for (const target of later.slice(at + 1)) await proveDelta(world, base, target);
      for (const each of later) await proveAll(world, each);
      expect((await blocksOf(world, last.id, first.id)).code).toBe(status.notFound);
      await run(["zfs", "promote", `tank/${connection}/v/pvc-1`]);
      await proveDelta(world, first, last);

      for (const { id } of ofClone) await deleteSnapshot(world, id);
      await deleteVolume(world, clone.volumeId);
      for (const { id } of taken) await deleteSnapshot(world, id);
      await deleteVolume(world, volumeId);
    } finally {
      expect(await world.end()).toEqual([]);
    }
  },
  limitMs,
);

test(
  "the changes of 1 % of a sparse zvol of 100 GiB are a list of less than 1 MB, and no block of them is missing",
  async () => {
    const connection = "iscsi";
    const driver = zfsDrivers.find(each => each.connection === connection);
    if (!driver) throw new Error(`there is no ${connection}`);
    const world = await startCsimux({ connections: { [connection]: fileOf(driver) } });
    const disks = new Disks(world, connection);
    try {
      const { volumeId } = await makeVolume(world, connection, "pvc-big", { size: 100 << 10 });
      const file = await open(await disks.device(volumeId), "r+");
      const pick = random(7);
      const written: number[] = [];
      const write = async () => {
        for (let left = 400; left > 0; left--) {
          const offset = pick(100 << 16) * (16 << 10);
          written.push(offset);
          await file.write(Buffer.alloc(16 << 10, 1 + pick(255)), 0, 16 << 10, offset);
        }
        await file.sync();
      };
      const ids: string[] = [];
      try {
        for (const name of ["b0", "b1"]) {
          await write();
          ids.push(await makeSnapshot(world, volumeId, name));
        }
      } finally {
        await file.close();
      }
      const [base, target = ""] = ids;
      const began = performance.now();
      const { code, ranges } = await blocksOf(world, target, base);
      const ms = Math.round(performance.now() - began);
      expect(code).toBe(0);
      const isNamed = (at: number) =>
        ranges.some(({ offset, bytes }) => offset <= BigInt(at) && BigInt(at) < offset + bytes);
      expect(written.slice(400).filter(at => !isNamed(at))).toEqual([]);
      const text = ranges.map(({ offset, bytes }) => `${offset} ${bytes}\n`).join("").length;
      process.stderr.write(`100 GiB: ${ranges.length} ranges, ${text} bytes of text, in ${ms} ms\n`);
      expect(text).toBeLessThan(1_000_000);
      const all = await blocksOf(world, target);
      expect(namedBytes(all)).toBe(new Set(written).size * (16 << 10));
      for (const id of ids) await deleteSnapshot(world, id);
      await deleteVolume(world, volumeId);
    } finally {
      expect(await world.end()).toEqual([]);
    }
  },
  limitMs,
);
