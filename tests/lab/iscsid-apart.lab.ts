import { afterAll, beforeAll, expect, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { World } from "../serve/world.ts";
import { limitMs } from "./disk-cases.ts";
import { livesAsBlock, livesMounted, mounting, show, takeDown } from "./disk-volume.ts";
import { type Made, startCsimux, unmountVolume } from "./rig.ts";
import { run, waitFor } from "./run.ts";
import { leftSince, traces } from "./traces.ts";
import { destroyZvol, iqn, makeTarget, makeZvol, removeTarget } from "./zfs/lio.ts";

// A host as Talos makes it (siderolabs/extensions, storage/iscsi-tools/iscsid.yaml): iscsid and iscsiadm exist only in the container of an
// extension, with an /etc/iscsi of its own, and the root that csimux sees at /host has no program at all: neither iscsiadm nor env nor a shell.

const host = "/host";
/** What starts iscsid in the guest itself. */
const units = ["iscsid.socket", "iscsid.service"];

let before: ReadonlySet<string>;
let world: World;
/** What the extension has as /etc/iscsi. It outlives the container. */
let database: string;
let daemon: ChildProcess | undefined;

beforeAll(async () => {
  before = await traces();
  // Masked, because iscsiadm starts them when no iscsid answers (iscsid.conf, iscsid.startup).
  await run(["systemctl", "mask", "--runtime", "--now", ...units]);
  database = await mkdtemp(join(tmpdir(), "extension-"));
  await cp("/etc/iscsi", database, { recursive: true });
  await mkdir(host);
  await run(["mount", "-t", "tmpfs", "tmpfs", host]);
  await mkdir(join(host, "proc"));
  await run(["mount", "--bind", "/proc", join(host, "proc")]);
  await startExtension();
  world = await startCsimux({ connections: {} });
}, limitMs);

afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await stopExtension();
  await run(["umount", join(host, "proc")]);
  await run(["umount", host]);
  await rmdir(host);
  await rm(database, { recursive: true });
  await run(["systemctl", "unmask", "--runtime", ...units]);
  await run(["systemctl", "start", "iscsid.socket"]);
  expect(await leftSince(before)).toEqual([]);
}, limitMs);

/** Whether a process with this name runs in the guest. */
async function runs(name: string): Promise<boolean> {
  const pids = (await readdir("/proc")).filter(each => /^\d+$/.test(each));
  const names = await Promise.all(pids.map(pid => readFile(`/proc/${pid}/comm`, "utf8").catch(() => "")));
  return names.some(each => each.trimEnd() === name);
}

/**
 * Starts iscsid in a new container: mount and pid namespaces of its own, the network of the host. As it has the guest's root, it also sees
 * the guest's mounts end.
 */
async function startExtension(): Promise<void> {
  const container = ["--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const entry = ["sh", "-c", 'mount --bind "$1" /etc/iscsi && exec iscsid -f', "sh", database];
  daemon = spawn("unshare", [...container, ...entry], { stdio: "inherit" });
  await waitFor("iscsid of the extension", async () => (await runs("iscsid")) || undefined, 60_000);
}

/** Ends iscsid as a crash does; sessions stay in the kernel. */
async function stopExtension(): Promise<void> {
  const child = daemon;
  daemon = undefined;
  if (child?.kill("SIGKILL")) await once(child, "exit");
  await waitFor("the end of iscsid", async () => ((await runs("iscsid")) ? undefined : true), 60_000);
}

const volume = (lun = "0"): Made => ({
  volumeId: `v:lab/apart${lun}`,
  volumeContext: { node_attach_driver: "iscsi", iqn, lun, portal: "127.0.0.1:3260", portals: "" },
});

/** The targets that have node records in a database of open-iscsi. */
const targetsIn = (folder: string): Promise<readonly string[]> => readdir(join(folder, "nodes")).catch(() => []);

/** A target with one LUN, a zvol of 320 MiB, while `work` uses it. Its `grow` also replaces the container of iscsid. */
async function withTarget(work: (grow: () => Promise<void>) => Promise<void>): Promise<void> {
  await makeZvol("disk0");
  try {
    await makeTarget(["disk0"], {});
    await work(async () => {
      expect(await targetsIn(database)).toEqual([iqn]);
      expect(await targetsIn("/etc/iscsi")).toEqual([]);
      await stopExtension();
      await startExtension();
      await run(["zfs", "set", "volsize=640M", "tank/disk0"]);
    });
  } finally {
    await takeDown(world);
    await removeTarget();
    await destroyZvol("disk0");
  }
}

test(
  "the life of a volume with a file system, with a new iscsid while it is mounted",
  async () => {
    await withTarget(grow => livesMounted(world, { volume: volume() }, "ext4", grow));
    expect(await targetsIn(database)).toEqual([]);
  },
  limitMs,
);

test(
  "the life of a block volume, with a new iscsid while it is published",
  async () => {
    await withTarget(grow => livesAsBlock(world, { volume: volume() }, grow));
    expect(await targetsIn(database)).toEqual([]);
  },
  limitMs,
);

test(
  "without iscsid nothing is attached or left, the message names iscsiadm, and the next try works",
  async () => {
    await withTarget(async () => {
      await stopExtension();
      const refused = show(world, volume(), { capability: mounting("ext4") });
      await expect(refused).rejects.toThrow(/FAILED_PRECONDITION.*iscsiadm is not installed/s);
      expect(await targetsIn(database)).toEqual([]);
      await startExtension();
      await show(world, volume(), { capability: mounting("ext4") });
      await unmountVolume(world, volume());
    });
  },
  limitMs,
);
