import { afterAll, beforeAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mebibytes, type World } from "../serve/world.ts";
import { type Made, startCsimux, whileMounted } from "./rig.ts";
import { run } from "./run.ts";
import { leftSince, traces } from "./traces.ts";

// The storage host is this machine, reached by ssh: once as root, once as the account with sudo.

let before: ReadonlySet<string>;
let folder: string;
let world: World;

const authorized = (home: string): string => `${home}/.ssh/authorized_keys`;

/** A connection to pool `tank` on this machine. */
async function connection(name: string, user: "root" | "csi", key: string, hostKey: string): Promise<string> {
  return [
    "driver: zfs-generic-nfs",
    "sshConnection:",
    "  host: 127.0.0.1",
    `  username: ${user}`,
    // Where the processor is made in software, a login takes seconds, and many of them on a busy machine.
    "  readyTimeout: 120000",
    `  hostKey: ${hostKey}`,
    "  privateKey: |",
    ...key
      .trim()
      .split("\n")
      .map(line => `    ${line}`),
    "zfs:",
    ...(user === "csi" ? ["  cli:", "    sudoEnabled: true"] : []),
    `  datasetParentName: tank/${name}/v`,
    `  detachedSnapshotsDatasetParentName: tank/${name}/s`,
    "  datasetEnableQuotas: true",
    '  datasetPermissionsMode: "0777"',
    "  datasetPermissionsUser: 0",
    "  datasetPermissionsGroup: 0",
    "nfs:",
    "  shareHost: 127.0.0.1",
    "  shareStrategy: setDatasetProperties",
    "  shareStrategySetDatasetProperties:",
    "    properties:",
    "      sharenfs: rw,no_root_squash,insecure",
    "",
  ].join("\n");
}

beforeAll(async () => {
  before = await traces();
  folder = await mkdtemp(join(tmpdir(), "zfs-"));
  await run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "zfs-lab", "-f", join(folder, "key")]);
  const line = (await readFile(join(folder, "key.pub"), "utf8")).trim();
  for (const home of ["/root", "/home/csi"]) await run(["sh", "-c", `echo '${line}' >> ${authorized(home)}`]);
  const key = await readFile(join(folder, "key"), "utf8");
  const hostKey = (await readFile("/etc/ssh/ssh_host_ed25519_key.pub", "utf8")).split(" ").slice(0, 2).join(" ");
  world = await startCsimux({
    connections: {
      root: await connection("root", "root", key, hostKey),
      sudo: await connection("sudo", "csi", key, hostKey),
    },
  });
}, 240_000);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  for (const home of ["/root", "/home/csi"]) await run(["sed", "-i", "/zfs-lab/d", authorized(home)]);
  for (const name of ["root", "sudo"]) await run(["sh", "-c", `zfs destroy -r tank/${name} 2>/dev/null || :`]);
  await rm(folder, { recursive: true });
  expect(await leftSince(before)).toEqual([]);
}, 120_000);

async function make(name: string, connection: string, more: object = {}): Promise<Made> {
  const { volume } = await world.create(name, connection, { capacityRange: mebibytes(64) as never, ...more }, 120_000);
  if (!volume) throw new Error("no volume");
  return volume;
}

const remove = ({ volumeId }: Made) => world.controller("deleteVolume", { volumeId }, 120_000);

const digest = async (path: string): Promise<string> =>
  createHash("sha256")
    .update(await readFile(path))
    .digest("hex");

test.each(["root", "sudo"])(
  "a volume lives its whole life over %s, its content and its copies' too",
  async name => {
    const content = Buffer.alloc(3 << 20, "csimux");
    const sum = createHash("sha256").update(content).digest("hex");
    const volume = await make("pvc-1", name);
    await whileMounted(world, volume, async path => {
      await writeFile(join(path, "data"), content);
      expect((await stat(path)).mode & 0o777).toBe(0o777);
    });
    const ask = (parameters: Record<string, string>, snapshotName: string) =>
      world.controller("createSnapshot", { sourceVolumeId: volume.volumeId, name: snapshotName, parameters }, 120_000);
    const { snapshot } = await ask({}, `snap-${name}`);
    const detached = (await ask({ detachedSnapshots: "true" }, `copy-${name}`)).snapshot;
    const of = (snapshotId = "") => ({
      volumeContentSource: { type: { case: "snapshot" as const, value: { snapshotId } } },
    });
    const clone = { volumeContentSource: { type: { case: "volume" as const, value: { volumeId: volume.volumeId } } } };
    const full = { connection: name, detachedVolumesFromVolumes: "true", detachedVolumesFromSnapshots: "true" };
    const others = [
      await make("restored", name, of(snapshot?.snapshotId)),
      await make("clone", name, clone),
      await make("full-clone", name, { ...clone, parameters: full }),
      await make("full-restored", name, { ...of(detached?.snapshotId), parameters: full }),
    ];
    for (const each of others)
      await whileMounted(world, each, async path => expect(await digest(join(path, "data"))).toBe(sum));
    const grown = await world.controller(
      "controllerExpandVolume",
      { volumeId: volume.volumeId, capacityRange: mebibytes(128) },
      60_000,
    );
    expect(grown).toMatchObject({ capacityBytes: 128n << 20n, nodeExpansionRequired: false });
    for (const each of others) await remove(each);
    for (const id of [snapshot?.snapshotId, detached?.snapshotId])
      await world.controller("deleteSnapshot", { snapshotId: id ?? "" }, 60_000);
    await remove(volume);
    const left = (await run(["zfs", "list", "-H", "-t", "all", "-o", "name", "-r", `tank/${name}`])).trim().split("\n");
    expect(left).toEqual([`tank/${name}`, `tank/${name}/s`, `tank/${name}/v`]);
  },
  600_000,
);

test("volumes that clients have used can be deleted together", async () => {
  const names = ["a", "b", "c", "d"];
  const made: Made[] = [];
  for (const name of names) made.push(await make(`used-${name}`, "root"));
  for (const each of made) await whileMounted(world, each, path => writeFile(join(path, "x"), "x"));
  await Promise.all(made.map(remove));
  expect((await run(["zfs", "list", "-H", "-o", "name", "-r", "tank/root/v"])).trim()).toBe("tank/root/v");
}, 300_000);
