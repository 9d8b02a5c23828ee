import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { World } from "../serve/world.ts";
import { mounting } from "./disk-volume.ts";
import { type Made, type MountOptions, mountVolume, unmountVolume } from "./rig.ts";
import { run, waitFor } from "./run.ts";
import { onSecond, secondAddress, secondTraces, startOnSecond } from "./second.ts";
import { leftSince, traces } from "./traces.ts";
import { destroyZvol, iqn, makeTarget, makeZvol, removeTarget } from "./zfs/lio.ts";
import { makeSubsystem, nqn, removeSubsystem } from "./zfs/nvmet.ts";

// The storage is the first guest; the second is the node, which is reset without a word: nothing is flushed, nothing logs out.

// Unlike /tmp, this outlives a start of the machine.
process.env["TMPDIR"] = "/var/tmp";

const limitMs = 1_800_000;
const bootMs = 600_000;

let before: ReadonlySet<string>;
let idle: ReadonlySet<string>;
let base: string;
let node: World;
const volumes: { readonly volume: Made; readonly options: MountOptions }[] = [];

beforeAll(async () => {
  before = await traces();
  idle = await secondTraces();
  const own = (await run(["hostname", "-I"])).split(" ").find(address => address.startsWith("10.77.0.")) ?? "";
  base = await mkdtemp("/srv/reboot-");
  await run(["exportfs", "-o", "rw,no_root_squash,insecure", `${secondAddress}:${base}`]);
  for (const name of ["disk0", "disk1"]) await makeZvol(name);
  await makeTarget(["disk0"]);
  await makeSubsystem(["disk1"], [own]);
  const onNode = onSecond;
  const contexts = {
    nfs: { server: own, share: base },
    iscsi: { iqn, lun: "0", portal: `${own}:3260` },
    nvmeof: { nqn, nsid: "1", transport: `tcp://${own}` },
  };
  for (const [protocol, context] of Object.entries(contexts)) {
    const volume = {
      volumeId: `v:lab/reboot-${protocol}`,
      volumeContext: { node_attach_driver: protocol, ...context },
    };
    volumes.push({ volume, options: { onNode, ...(protocol === "nfs" ? {} : { capability: mounting("ext4") }) } });
  }
  node = await startOnSecond({ connections: {} });
}, limitMs);
afterAll(async () => {
  expect(await node.end()).toEqual([]);
  await removeTarget();
  await removeSubsystem();
  for (const name of ["disk0", "disk1"]) await destroyZvol(name);
  await run(["exportfs", "-u", `${secondAddress}:${base}`]);
  await rm(base, { recursive: true });
  expect(await leftSince(before)).toEqual([]);
}, limitMs);

const bootId = (): Promise<string | undefined> =>
  onSecond(["cat", "/proc/sys/kernel/random/boot_id"], 20_000).catch(() => undefined);

/** Resets the node as if its power failed for a moment, and starts csimux on it again. */
async function reset(): Promise<void> {
  const last = await bootId();
  expect(last).toBeString();
  const isNew = async () => {
    const now = await bootId();
    if (now !== last) return now;
    // The login may end before the command has run, and never answers after it.
    await onSecond(["sh", "-c", "echo b >/proc/sysrq-trigger"], 10_000).catch(() => {});
    return undefined;
  };
  await waitFor("the start of the node", isNew, bootMs);
  await node.restart();
}

const write = (path: string, text: string) =>
  onSecond(["sh", "-c", 'printf %s "$2" >"$1" && sync "$1"', "write", join(path, "file"), text]);
const read = (path: string) => onSecond(["cat", join(path, "file")]);

const kept = () => onSecond(["sh", "-c", 'ls "$1" "$2" 2>/dev/null | grep json || :', "kept", ...folders()]);
const folders = () => ["volumes", "opened"].map(name => join(node.sandbox.stateDir, name));

test(
  "a node that was reset under its volumes cleans up after itself, and has them again with what was written",
  async () => {
    for (const { volume, options } of volumes)
      await write(await mountVolume(node, volume, options), `first of ${volume.volumeId}`);
    await reset();
    // As a kubelet that has no pods for them any more.
    for (const { volume } of volumes) await unmountVolume(node, volume);
    expect(await leftSince(idle, secondTraces)).toEqual([]);
    expect(await kept()).toBe("");
    for (const { volume, options } of volumes) {
      const path = await mountVolume(node, volume, options);
      expect(await read(path)).toBe(`first of ${volume.volumeId}`);
      await write(path, `second of ${volume.volumeId}`);
    }
    await reset();
    // As a kubelet whose pods start again: nothing is unstaged before.
    for (const { volume, options } of volumes)
      expect(await read(await mountVolume(node, volume, options))).toBe(`second of ${volume.volumeId}`);
    for (const { volume } of volumes) await unmountVolume(node, volume);
    expect(await leftSince(idle, secondTraces)).toEqual([]);
    expect(await kept()).toBe("");
  },
  limitMs,
);
