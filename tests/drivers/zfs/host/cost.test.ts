import { expect, test } from "bun:test";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import { ZfsCli } from "../../../../lib/drivers/zfs/cli/cli.ts";
import { destroyStep } from "../../../../lib/drivers/zfs/cli/destroy.ts";
import { onlyIf } from "../../../../lib/drivers/zfs/cli/lock.ts";
import { property } from "../../../../lib/drivers/zfs/properties.ts";
import { localRunner } from "../../../../lib/io/local.ts";
import { localHost } from "../../../../lib/io/local-host.ts";
import type { Argv } from "../../../../lib/io/runner.ts";
import type { Script, Step } from "../../../../lib/io/script.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, volumeOf } from "../../../contract/rig.ts";
import { type ZfsRig, zfsRig } from "../zfs-rig.ts";

const call = callWith();
const opened = perTest(zfsRig);
async function open(driver: string): Promise<ZfsRig> {
  const zfs = /nfs/.test(driver) ? { datasetPermissionsMode: "0770", datasetPermissionsUser: 0 } : {};
  const rig = await opened({ driver, zfs });
  return rig;
}

/** The number of scripts that some work takes, and their words. */
async function costOf(rig: ZfsRig, work: (driver: Driver) => Promise<unknown>) {
  const scripts: Step[][] = [];
  const script = (whole: Script, signal: AbortSignal) => {
    scripts.push([...whole.steps]);
    return rig.host.script(whole, signal);
  };
  await work(rig.on({ ...rig.host, script }));
  const programs = scripts.flat().flatMap(({ argv }) => argv.filter(word => typeof word === "string"));
  return { trips: scripts.length, programs };
}

test.each([
  ["zfs-generic-nfs", 1, 2],
  ["zfs-local-zvol", 2, 2],
  ["zfs-generic-iscsi", 3, 3],
  ["zfs-generic-nvmeof", 3, 3],
])(
  "%s makes a volume in %p scripts and deletes it in %p, without asking for its account or host",
  async (name, make, remove) => {
    const rig = await open(name);
    await rig.open().create(volumeOf("first"), call);
    const made = await costOf(rig, driver => driver.create(volumeOf("a"), call));
    const gone = await costOf(rig, driver => driver.delete("a", call));
    expect([made.trips, gone.trips]).toEqual([make, remove]);
    for (const word of ["whoami", "id", "echo"]) expect([...made.programs, ...gone.programs]).not.toContain(word);
  },
);

test("free space is read, and nothing is written for it", async () => {
  const rig = await open("zfs-generic-nfs");
  rig.fake.commands();
  await rig.open().capacity?.available({}, call);
  expect(rig.fake.commands().map(line => line.split(" ")[1])).toEqual(["get"]);
});

test("a listing asks for the pool only where the dataset above all volumes does not exist", async () => {
  const rig = await open("zfs-generic-nfs");
  await rig.open().create(volumeOf("a"), call);
  const verbs = async () => {
    rig.fake.commands();
    await rig.open().inventory?.list({ token: undefined, max: 9 }, call);
    return rig.fake.commands().map(line => line.split(" ")[1]);
  };
  expect(await verbs()).toEqual(["get", "list"]);
  rig.fake.zfs("destroy", "-r", "tank/k/v");
  expect(await verbs()).toEqual(["get", "list", "get"]);
});

test("a snapshot costs two scripts without a listing, however many there are; names are listed once", async () => {
  const rig = await open("zfs-generic-nfs");
  await rig.open().create(volumeOf("a"), call);
  await costOf(rig, async driver => {
    const copyTarget = (name: string) => driver.snapshots?.create(name, "a", {}, call);
    await copyTarget("first");
    rig.fake.commands();
    for (const name of ["second", "third"]) await copyTarget(name);
  });
  const verbs = rig.fake.commands().map(line => line.split(" ")[1]);
  expect(verbs).toEqual(["get", "snapshot", "get", "get", "snapshot", "get"]);
});

test.each([
  ["as csimux took it", [], 1, ["get", "destroy"]],
  ["of another instance_id", ["set", `${property.instance}=x`], 1, ["get", "get"]],
  ["that does not name its volume", ["inherit", property.snapshotVolume], 2, ["get", "get", "get", "destroy"]],
])("a snapshot %s is deleted or refused: %p, in %p scripts with %p", async (_, change, trips, verbs) => {
  const rig = await open("zfs-generic-nfs");
  await rig.open().create(volumeOf("a"), call);
  await rig.open().snapshots?.create("s", "a", {}, call);
  if (change.length > 0) rig.fake.zfs(...change, "tank/k/v/a@s");
  rig.fake.commands();
  const cost = await costOf(rig, async driver => driver.snapshots?.delete("a@s", call).catch(() => {}));
  expect([cost.trips, rig.fake.commands().map(line => line.split(" ")[1])]).toEqual([trips, verbs]);
  expect(rig.fake.find("tank/k/v/a@s") === undefined).toBe(verbs.at(-1) === "destroy");
});

test("among 10,000 snapshots, one command returns only those of the requested name", async () => {
  const rig = await open("zfs-generic-nfs");
  const names = Array.from({ length: 10_000 }, (_, n) => `tank/k/v/a@auto-${n}`);
  // As `zfs list -S name` sorts them.
  const backwards = [...names, "tank/k/v/b@snap", "tank/k/v/c@snap-2"].sort().reverse();
  writeFileSync(join(rig.fake.folder, "names"), [...backwards, "tank/k/v", ""].join("\n"));
  const zfs = join(rig.fake.folder, "zfs");
  writeFileSync(
    zfs,
    `#!/bin/sh
echo "$*" >>'${rig.fake.folder}/calls'
case $1 in list) exec cat '${rig.fake.folder}/names';; esac
printf 'tank\\ttype\\tfilesystem\\t-\\n'
`,
  );
  chmodSync(zfs, 0o755);
  const cli = new ZfsCli(localHost(localRunner({ env: { PATH: "/usr/bin:/bin" } })), {
    zfs: [zfs],
    zpool: "zpool",
    privileged: [],
  });
  const before = process.cpuUsage().user;
  const wanted = { name: "snap", parent: "tank/k/v", copies: undefined };
  const { holders } = await cli.snapshotsNamed(wanted, { names: ["tank"], properties: ["type"] }, call.signal);
  expect(holders).toEqual(["tank/k/v/b"]);
  expect(process.cpuUsage().user - before).toBeLessThan(500_000);
  const lines = readFileSync(join(rig.fake.folder, "calls"), "utf8").split("\n");
  expect(lines.filter(line => line.startsWith("list"))).toEqual([
    "list -H -o name -S name -t snapshot,filesystem,volume -d 2 tank/k/v",
  ]);
});

/** A zfs that fails to destroy, and notes each call with the number of the process that made it, and its own. */
async function callers(argvOf: (zfs: string) => Argv): Promise<readonly string[]> {
  const { fake } = await open("zfs-generic-nfs");
  const zfs = join(fake.folder, "zfs");
  writeFileSync(
    zfs,
    `#!/bin/sh
echo "$1 $PPID $$" >>'${fake.folder}/calls'
[ "$1" != get ] || printf '4711\\t-\\n-\\t-\\n'
[ "$1" != destroy ]
`,
  );
  chmodSync(zfs, 0o755);
  await localRunner({ env: { PATH: "/usr/bin:/bin" } }).run({ argv: argvOf(zfs) }, call.signal);
  return readFileSync(join(fake.folder, "calls"), "utf8").trim().split("\n");
}

test("the shell that holds the lock of a dataset compares it and becomes what changes it", async () => {
  const calls = await callers(zfs =>
    onlyIf({ zfs: [zfs] }, "tank/a", "4711", "csimux:done", [zfs, "set", "a:b=c", "tank/a"]),
  );
  expect(calls.map(each => each.split(" ")[0])).toEqual(["get", "set"]);
  const [get, set] = calls.map(each => each.split(" "));
  expect(set?.[2]).toBe(get?.[1] ?? "");
});

test("a deletion and what mounts and shares again after its failure need one shell", async () => {
  const served = { protocol: "nfs", mountpoint: "/a" } as const;
  const calls = await callers(zfs => {
    const { argv } = destroyStep({ zfs: [zfs], zpool: "zpool", privileged: [] }, "tank/a", { served });
    const words = argv.filter(word => typeof word === "string");
    return ["sh", ...words.slice(1)];
  });
  expect(calls.map(each => each.split(" ")[0])).toEqual(["destroy", "mount", "share"]);
  expect(new Set(calls.map(each => each.split(" ")[1])).size).toBe(1);
});
