import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import type { World } from "../serve/world.ts";
import { mounting } from "./disk-volume.ts";
import { type Made, type MountOptions, mountVolume, startCsimux, unmountVolume } from "./rig.ts";
import { run, waitFor } from "./run.ts";
import { leftSince, traces } from "./traces.ts";
import { destroyZvol, iqn, makeTarget, makeZvol, removeTarget } from "./zfs/lio.ts";

// Compares a volume's time on a node with equivalent bare commands. They alternate, because other programs on
// the host change the speed of the emulated processor.

const rounds = Number(process.env["LAB_ROUNDS"] ?? 3);

let before: ReadonlySet<string>;
let world: World;
let bare: string;
beforeAll(async () => {
  before = await traces();
  world = await startCsimux({ connections: {} });
  await run(["systemctl", "start", "iscsid"]);
  bare = await mkdtemp("/srv/bare-");
  for (const name of ["staging", "target"]) await mkdir(`${bare}/${name}`);
}, 600_000);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await rm(bare, { recursive: true });
  expect(await leftSince(before)).toEqual([]);
}, 600_000);

const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const from = performance.now();
  await work();
  return performance.now() - from;
};

const median = (times: readonly number[]): number => [...times].sort((a, b) => a - b)[times.length >> 1] ?? Number.NaN;

/** Runs both alternately, the first time unmeasured, and prints the medians and their ratio. */
async function compared(
  what: string,
  volume: Made,
  options: MountOptions,
  commands: () => Promise<void>,
): Promise<void> {
  const own: number[] = [];
  const others: number[] = [];
  const cycle = async () => {
    await mountVolume(world, volume, options);
    await unmountVolume(world, volume);
  };
  for (let round = 0; round <= rounds; round++) {
    own.push(await timed(cycle));
    others.push(await timed(commands));
  }
  const [ours, theirs] = [median(own.slice(1)), median(others.slice(1))];
  const ratio = (ours / theirs).toFixed(2);
  process.stderr.write(
    `node cycle, ${what}: ${ours.toFixed(0)} ms; bare commands ${theirs.toFixed(0)} ms: ${ratio} x\n`,
  );
  // Wide, because the lab is not suitable for measurements: this detects an order of magnitude.
  expect(ours / theirs).toBeLessThan(4);
}

/** The steps of every volume: mounting, bind-mounting, and undoing both. */
async function mounted(words: readonly string[], disk?: string): Promise<void> {
  await run(["mount", ...words, `${bare}/staging`]);
  if (disk) await run(["resize2fs", disk]);
  await run(["mount", "--bind", `${bare}/staging`, `${bare}/target`]);
  await run(["umount", `${bare}/target`]);
  await run(["umount", `${bare}/staging`]);
}

test("a volume of NFS takes about as long as the bare commands", async () => {
  const base = await mkdtemp("/srv/figures-");
  await run(["exportfs", "-o", "rw,no_root_squash,insecure", `127.0.0.1:${base}`]);
  const context = { node_attach_driver: "nfs", server: "127.0.0.1", share: base };
  await compared("NFS", { volumeId: "v:lab/figures-nfs", volumeContext: context }, {}, () =>
    mounted(["-t", "nfs", `127.0.0.1:${base}`]),
  );
  await run(["exportfs", "-u", `127.0.0.1:${base}`]);
  await rm(base, { recursive: true });
}, 600_000);

test("a volume of iSCSI takes about as long as the bare commands", async () => {
  await makeZvol("disk0");
  await makeTarget(["disk0"]);
  const record = ["iscsiadm", "-m", "node", "-T", iqn, "-p", "127.0.0.1:3260"] as const;
  const disk = `/dev/disk/by-path/ip-127.0.0.1:3260-iscsi-${iqn}-lun-0`;
  const context = { node_attach_driver: "iscsi", iqn, lun: "0", portal: "127.0.0.1:3260" };
  await compared(
    "iSCSI with ext4",
    { volumeId: "v:lab/figures-iscsi", volumeContext: context },
    { capability: mounting("ext4") },
    async () => {
      await run([...record, "-o", "new"]);
      await run([...record, "-o", "update", "-n", "node.startup", "-v", "manual"]);
      await run([...record, "--login"]);
      await waitFor(disk, async () => (existsSync(disk) ? true : undefined));
      await run(["blkid", "-p", disk]);
      await mounted(["-t", "ext4", disk], disk);
      await run([...record, "--logout"]);
      await run([...record, "-o", "delete"]);
    },
  );
  await removeTarget();
  await destroyZvol("disk0");
}, 900_000);
