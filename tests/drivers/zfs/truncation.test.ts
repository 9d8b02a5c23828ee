import { afterEach, expect, test } from "bun:test";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import {
  expectTruthful,
  type Operation,
  operations,
  type SpoiledRig,
  Spoiler,
} from "../../contract/spoiled-answers.ts";
import { effortOf, type Printed } from "../../contract/spoiled-programs.ts";
import { seed } from "../../sample.ts";
import { spoiledZfs } from "./spoiled-rig.ts";
import type { ZfsOptions } from "./zfs-rig.ts";

const rigs: SpoiledRig<Printed>[] = [];
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});

const call = callWith();
const detached = { detachedSnapshots: "true" };
const copied = async (driver: Driver) => {
  await driver.create(volumeOf("origin"), call);
  return (await snapshotsOf(driver).create("snap", "origin", detached, call)).id;
};
const copy = async (driver: Driver): Promise<string> => {
  const { items } = await snapshotsOf(driver).list({ volumeId: undefined }, { token: undefined, max: 1 }, call);
  return items[0]?.id ?? "";
};

/** Snapshots that are copies, which ZFS and TrueNAS have alone. */
const ofCopies: Readonly<Record<string, Operation>> = {
  "take a detached snapshot": {
    needs: ["snapshots"],
    before: driver => driver.create(volumeOf("origin"), call),
    run: async driver => (await snapshotsOf(driver).create("snap", "origin", detached, call)).id,
  },
  "take a detached snapshot that is there": {
    needs: ["snapshots"],
    before: copied,
    run: async driver => (await snapshotsOf(driver).create("snap", "origin", detached, call)).id,
  },
  "delete a detached snapshot": {
    needs: ["snapshots"],
    before: copied,
    run: async driver => snapshotsOf(driver).delete(await copy(driver), call),
  },
  "delete a volume with a detached snapshot": {
    needs: ["snapshots"],
    before: copied,
    run: driver => driver.delete("origin", call),
  },
  "restore a detached snapshot": {
    needs: ["clones", "snapshots"],
    before: copied,
    async run(driver) {
      const source = { kind: "snapshot", id: await copy(driver) } as const;
      const { id, bytes, context } = await driver.create(volumeOf("restored", gib, source), call);
      return { id, bytes, context };
    },
  },
};

const inlineId = `csi-${"ab".repeat(32)}`;
const make = async (driver: Driver) => driver.inline?.make(inlineId, { size: "10Mi" }, async () => {}, call);

/** Volumes that pods describe. */
const ofPods: Readonly<Record<string, Operation>> = {
  "make a volume of a pod": { needs: ["inline"], run: async driver => ({ ...(await make(driver)), identity: "" }) },
  "make a volume of a pod that is there": { needs: ["inline"], before: make, run: make },
  "remove a volume of a pod": {
    needs: ["inline"],
    before: make,
    run: driver => driver.inline?.remove(inlineId, undefined, call) ?? Promise.resolve(),
  },
  "remove a volume of a pod with another identity": {
    needs: ["inline"],
    before: make,
    run: driver => driver.inline?.remove(inlineId, "1", call) ?? Promise.resolve(),
  },
};

const every: Readonly<Record<string, Operation>> = { ...operations, ...ofCopies };

const ways: Readonly<Record<string, ZfsOptions>> = {
  "zfs-generic-nfs": { driver: "zfs-generic-nfs" },
  "zfs-generic-smb": { driver: "zfs-generic-smb" },
  "zfs-generic-iscsi (LIO)": { driver: "zfs-generic-iscsi" },
  "zfs-generic-nvmeof (nvmet)": { driver: "zfs-generic-nvmeof" },
  "zfs-generic-nvmeof (SPDK)": { driver: "zfs-generic-nvmeof", spdk: true },
  "zfs-local-dataset": { driver: "zfs-local-dataset" },
  "zfs-local-zvol": { driver: "zfs-local-zvol" },
  "zfs-local-zvol (tombstones)": { driver: "zfs-local-zvol", zfs: { deleteWithDependents: "tombstone" } },
};

const withMode = { driver: "zfs-generic-nfs", zfs: { datasetPermissionsMode: "0770", datasetPermissionsUser: 0 } };
const inline: ZfsOptions = { driver: "zfs-local-ephemeral-inline" };
const cases = [
  ...Object.entries(ways).flatMap(([way, options]) =>
    Object.entries(every).map(([title, operation]) => [way, title, options, operation] as const),
  ),
  ...["create", "create what is there", "clone", "copy", "restore"].map(
    title => ["zfs-generic-nfs (permissions)", title, withMode, every[title]] as const,
  ),
  ...Object.entries(ofPods).map(([title, operation]) => [inline.driver, title, inline, operation] as const),
];

test.each(cases)(
  `%s never says that it did, when it did not: %s; and it destroys nothing more, however an answer is spoiled (seed ${seed})`,
  async (_, title, options, operation) => {
    const rig = await spoiledZfs(options);
    rigs.push(rig);
    expect(await expectTruthful(rig, title, { ...effortOf(6), ...(operation && { operation }) })).toBeGreaterThan(0);
  },
  3_600_000,
);

/** Loses the rows of all snapshots, and none of other names. */
const noSnapshots = {
  title: "without snapshots",
  spoil: (answer: Printed): Printed => ({ ...answer, text: answer.text.replaceAll(/^[^\t\n]*@.*\n/gm, "") }),
};

test.each(Object.entries(ways).filter(([way]) => /iscsi|nvmeof/.test(way)))(
  "%s: a deletion whose listing lost the snapshot of a clone leaves the target and its sessions alone",
  async (_, options) => {
    const rig = await spoiledZfs(options);
    rigs.push(rig);
    const driver = rig.open(new Spoiler<Printed>());
    await driver.create(volumeOf("origin"), call);
    await driver.create(volumeOf("clone", gib, { kind: "volume", id: "origin" }), call);
    await rig.save();
    const before = await rig.things();
    await expect(rig.open(new Spoiler(0, noSnapshots)).delete("origin", call)).rejects.toThrow("origin of");
    expect(await rig.things()).toEqual([...before]);
  },
);

test.each(["zfs-generic-nfs", "zfs-generic-smb", "zfs-local-dataset", "zfs-local-zvol"])(
  "%s: a deletion whose listing lost the snapshots is refused, by zfs or before, and changes nothing",
  async driverName => {
    const rig = await spoiledZfs({ driver: driverName });
    rigs.push(rig);
    const driver = rig.open(new Spoiler<Printed>());
    await driver.create(volumeOf("origin"), call);
    await snapshotsOf(driver).create("kept", "origin", {}, call);
    await rig.save();
    const before = await rig.things();
    await expect(rig.open(new Spoiler(0, noSnapshots)).delete("origin", call)).rejects.toThrow(
      /has children|snapshots/,
    );
    expect(await rig.things()).toEqual([...before]);
  },
);
