import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { mountCapability } from "../../../scripts/client.ts";
import { codeOf, mebibytes, status, untilDone, type World } from "../../serve/world.ts";
import {
  foldersOf,
  type Made,
  mountVolume,
  startCsimux,
  unmountVolume,
  whileMounted,
  writeWithFsGroup,
} from "../rig.ts";
import { run, waitFor } from "../run.ts";
import { leftSince, traces } from "../traces.ts";

/**
 * An address of this machine that a firewall rule can block: the server that dies. With NFS 4, the kernel detects the same
 * server as at 127.0.0.1 and continues with that (RFC 8881, section 2.10.5, "Trunking"), so it is mounted with NFS 3.
 */
const mortal = "10.99.0.1";
const mortalFlags = ["vers=3", "nolock"] as const;
/** A server that was never reached before it became silent; with NFS 4, the kernel waits for it. */
const absent = "10.99.0.2";

let before: ReadonlySet<string>;
let base: string;
let world: World;
let other: World;

const connection = (host: string, path: string, ...more: readonly string[]): string =>
  [
    "driver: nfs-client",
    "nfs:",
    `  shareHost: ${host}`,
    `  shareBasePath: ${path}`,
    "  controllerBasePath: /nowhere/mounted",
    ...more,
    "",
  ].join("\n");

beforeAll(async () => {
  before = await traces();
  base = await mkdtemp("/srv/nfs-");
  for (const name of ["alive", "six", "dying"]) {
    await mkdir(`${base}/${name}`);
    for (const client of ["127.0.0.1", "::1", mortal])
      await run([
        "exportfs",
        "-o",
        "rw,no_root_squash,insecure",
        `${client.includes("::") ? "[::1]" : client}:${base}/${name}`,
      ]);
  }
  for (const address of [mortal, absent]) await run(["ip", "address", "add", `${address}/32`, "dev", "lo"]);
  const connections = {
    alive: connection("127.0.0.1", `${base}/alive`),
    // A separate export: the kernel detects the same server, and lists its mounts with the first address.
    six: connection("::1", `${base}/six`),
    dying: connection(mortal, `${base}/dying`, "node:", "  mount:", `    mount_flags: ${mortalFlags.join(",")}`),
  };
  world = await startCsimux({ connections });
  other = await startCsimux({ connections, env: { CSI_NODE_ID: "other" } });
});
afterAll(async () => {
  expect(await other.end()).toEqual([]);
  expect(await world.end()).toEqual([]);
  for (const address of [mortal, absent]) await run(["ip", "address", "del", `${address}/32`, "dev", "lo"]);
  await run(["exportfs", "-ua"]);
  await rm(base, { recursive: true });
  expect(await leftSince(before)).toEqual([]);
});

async function make(name: string, on = "alive", source?: Made): Promise<Made> {
  const volumeContentSource = source && { type: { case: "volume" as const, value: { volumeId: source.volumeId } } };
  const { volume } = await untilDone(() =>
    world.create(name, on, volumeContentSource ? { volumeContentSource } : {}, 60_000),
  );
  if (!volume) throw new Error("no volume");
  return volume;
}

const remove = (volume: Made) =>
  untilDone(() => world.controller("deleteVolume", { volumeId: volume.volumeId }, 60_000));

const withFlags = (...mountFlags: readonly string[]) => ({
  capability: { ...mountCapability, accessType: { case: "mount" as const, value: { mountFlags: [...mountFlags] } } },
});

const nfsMounts = async (): Promise<readonly string[]> =>
  (await readFile("/proc/self/mountinfo", "utf8")).split("\n").filter(line => / - nfs4? /.test(line));

/** Drops packets to the mortal servers while `work` runs; on arrival, because a sender notices an outgoing drop. */
async function whileDead(work: () => Promise<void>): Promise<void> {
  await run(["nft", "add table inet dead"]);
  try {
    await run(["nft", "add chain inet dead out { type filter hook input priority 0; }"]);
    await run(["nft", `add rule inet dead out ip daddr ${mortal} drop`]);
    await run(["nft", `add rule inet dead out ip saddr ${mortal} drop`]);
    await run(["nft", `add rule inet dead out ip daddr ${absent} drop`]);
    await work();
  } finally {
    await run(["nft", "delete table inet dead"]);
  }
}

test("the controller mounts the export itself, once, and the successor of a killed process uses that mount", async () => {
  await remove(await make("pvc-own"));
  // csimux also mounts the other connections of the file when it checks their health.
  const isOwn = (line: string) => line.includes(world.sandbox.stateDir) && line.includes(`:${base}/alive `);
  const mounts = (await nfsMounts()).filter(isOwn);
  expect(mounts).toHaveLength(1);
  process.kill(world.daemon.pid, "SIGKILL");
  await world.restart();
  await remove(await make("pvc-own"));
  expect((await nfsMounts()).filter(isOwn)).toEqual(mounts);
  expect(await readdir("/nowhere").catch(() => "absent")).toBe("absent");
});

test.each([
  ["alive", ["vers=3", "nolock"]],
  ["alive", ["vers=4.0"]],
  ["alive", ["vers=4.2", "noatime", "nconnect=2"]],
  ["six", []],
] as const)("a volume of %s lives its life with %p, and a second node sees it", async (on, flags) => {
  const made = await make("pvc-1", on);
  await whileMounted(
    world,
    made,
    async path => {
      await writeFile(join(path, "hello"), "from a pod");
      await whileMounted(other, made, async there => {
        expect(await readFile(join(there, "hello"), "utf8")).toBe("from a pod");
        await writeFile(join(there, "answer"), "from another node");
      });
      expect(await readFile(join(path, "answer"), "utf8")).toBe("from another node");
      await expect(writeWithFsGroup(path)).rejects.toThrow("Permission denied");
      await writeWithFsGroup(path, 2000);
      const placed = { volumeId: made.volumeId, volumePath: path };
      const { usage } = await world.node("nodeGetVolumeStats", placed);
      expect(usage.map(({ total }) => total > 0n)).toEqual([true, true]);
      await world.controller("controllerExpandVolume", { volumeId: made.volumeId, capacityRange: mebibytes(5) });
      await world.node("nodeExpandVolume", { ...placed, capacityRange: mebibytes(5) });
      expect(
        (await world.node("nodeGetVolumeHealth", { volumeId: made.volumeId })).volumeHealth?.healthStatuses,
      ).toEqual([]);
    },
    withFlags(...flags),
  );
  await whileMounted(
    other,
    made,
    async path => {
      expect(await readFile(join(path, "hello"), "utf8")).toBe("from a pod");
      await expect(writeFile(join(path, "hello"), "no")).rejects.toThrow("EROFS");
    },
    { readonly: true },
  );
  await remove(made);
  expect(await readdir(`${base}/${on}/v`).catch(() => [])).toEqual([]);
});

test("a volume with a replaced folder on the server is mounted again by the next staging and publishing", async () => {
  const made = await make("pvc-stale");
  const folder = `${base}/alive/v/pvc-stale`;
  const path = await mountVolume(world, made, withFlags("vers=4.2", "actimeo=1"));
  await writeFile(join(path, "old"), "");
  await run(["mv", folder, `${base}/alive/gone`]);
  await rm(`${base}/alive/gone`, { recursive: true });
  await mkdir(folder);
  await waitFor(
    "the stale handle",
    async () =>
      (await readdir(path).then(
        () => false,
        () => true,
      )) || undefined,
  );
  // A problem is reported once it has lasted.
  await waitFor("what is wrong with the volume", async () => {
    const { volumeHealth } = await world.node("nodeGetVolumeHealth", { volumeId: made.volumeId }, 60_000);
    return volumeHealth?.healthStatuses.length === 1 || undefined;
  });
  // Like kubelet, which created the folders before.
  const { staging } = foldersOf(world, made);
  const { capability } = withFlags("vers=4.2", "actimeo=1");
  const request = { ...made, volumeCapability: capability, stagingTargetPath: staging };
  const common = { ...request, volumeContext: { ...made.volumeContext } };
  await world.node("nodeStageVolume", common, 60_000);
  await world.node("nodePublishVolume", { ...common, targetPath: path }, 60_000);
  await writeFile(join(path, "new"), "");
  expect(await readdir(folder)).toEqual(["new"]);
  await unmountVolume(world, made);
  await remove(made);
});

test("a server that died under open files keeps no pod from going, and no other volume from living", async () => {
  const made = await make("pvc-dead", "dying");
  const path = await mountVolume(world, made, withFlags(...mortalFlags));
  const file = await open(join(path, "file"), "w");
  await file.write("something");
  await file.sync();
  await whileDead(async () => {
    const { staging } = foldersOf(world, made);
    await unmountVolume(world, made);
    expect((await readFile("/proc/self/mountinfo", "utf8")).split("\n").filter(line => line.includes(staging))).toEqual(
      [],
    );
    const alive = await make("pvc-alive");
    await whileMounted(world, alive, there => writeFile(join(there, "hello"), ""));
    await remove(alive);
  });
  await file.close();
  expect(await readFile(`${base}/dying/v/pvc-dead/file`, "utf8")).toBe("something");
  await remove(made);
}, 300_000);

/** How many mount.nfs(8) run. */
const mountPrograms = async (): Promise<number> =>
  (await run(["ps", "-e", "-o", "comm="])).split("\n").filter(name => name === "mount.nfs").length;

const median = (times: readonly number[]): number => [...times].sort((a, b) => a - b)[times.length >> 1] ?? Number.NaN;

/** What Probe takes in the middle, in milliseconds, of each of these, asked in turns: what else the machine does falls on all. */
async function probed(...worlds: readonly World[]): Promise<readonly number[]> {
  const times = worlds.map((): number[] => []);
  for (let at = 0; at < 20; at++) {
    for (const [index, asked] of worlds.entries()) {
      const from = performance.now();
      expect((await asked.probe()).ready).toBe(true);
      times[index]?.push(performance.now() - from);
    }
    await pause(100);
  }
  return times.map(median);
}

test("Probe answers at once while twenty calls hang on a server that is dead, and all of them end in time", async () => {
  const made = await make("pvc-hang", "dying");
  const path = await mountVolume(world, made, withFlags(...mortalFlags));
  await whileDead(async () => {
    const staging = (name: string) => join(world.sandbox.folder, `hanging-${name}`);
    const names = Array.from({ length: 20 }, (_, at) => `${at}`);
    for (const name of names) await mkdir(staging(name));
    // A connection without mount flags in its file: the flags of "dying" request NFS 3, which times out.
    const request = (name: string) => ({
      volumeId: `v:alive/hang-${name}`,
      volumeContext: { ...made.volumeContext, server: absent },
      volumeCapability: withFlags("vers=4.2").capability,
      stagingTargetPath: staging(name),
    });
    const began = Date.now();
    const hanging = names.map(name => codeOf(world.node("nodeStageVolume", request(name), 60_000)));
    const measured = codeOf(world.node("nodeGetVolumeStats", { volumeId: made.volumeId, volumePath: path }, 60_000));
    // Each is given up after half a minute, in which a busy machine may not get to start all of them.
    await waitFor("the mounts that hang", async () => (await mountPrograms()) >= names.length / 2 || undefined, 60_000);
    const [here = Number.NaN, beside = Number.NaN] = await probed(world, other);
    process.stderr.write(`Probe: ${here.toFixed(1)} ms; of a csimux without calls that hang ${beside.toFixed(1)} ms\n`);
    expect(here - beside).toBeLessThan(100);
    expect(new Set(await Promise.all(hanging))).toEqual(new Set([status.deadlineExceeded]));
    expect(await measured).not.toBe("ok");
    expect(Date.now() - began).toBeLessThan(90_000);
    for (const name of names) {
      const unstage = { volumeId: `v:alive/hang-${name}`, stagingTargetPath: staging(name) };
      await untilDone(() => world.node("nodeUnstageVolume", unstage, 60_000));
    }
  });
  await unmountVolume(world, made);
  await remove(made);
}, 300_000);
