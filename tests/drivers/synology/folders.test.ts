import { describe, expect, test } from "bun:test";
import { momentOf } from "../../../lib/drivers/synology/folder-snapshots.ts";
import { driverContract } from "../../contract/driver.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { shareContract } from "../../contract/share.ts";
import { storeContract } from "../../contract/store.ts";
import { drawn } from "../../sample.ts";
import { type DsmOptions, partsRig } from "./dsm-rig.ts";
import { folderParts, folderRig, type Protocol } from "./folder-rig.ts";

const lacks = {
  "loss of power": "DSM answers for its own disks",
  "snapshots survive their volume": "DSM removes them with their folder",
  modify: "classes have nothing to change of a folder",
  kept: "DSM does not tell what shares data with a folder",
  groupSnapshots: "DSM takes snapshots of one folder",
};

const systems = [
  { title: "synology-nfs", open: () => folderRig("nfs") },
  { title: "synology-smb on DSM 6", open: () => folderRig("smb", { version: 6 }) },
];
for (const { title, open } of drawn(systems, 1)) driverContract(title, open, lacks);

const rigOfParts = (protocol: Protocol) => partsRig((dsm, more) => folderParts(dsm, protocol, more));

storeContract(
  "unitStore of folders",
  async () => {
    const rig = await rigOfParts("nfs");
    return { ...rig, open: () => rig.open().store };
  },
  { "loss of power": lacks["loss of power"], notes: "the folder's description says all" },
);
shareContract("nfsFolders", () => rigOfParts("nfs"));
shareContract("smbFolders", () => rigOfParts("smb"));

const call = callWith();
const opened = perTest(folderRig);
async function rigOf(protocol: Protocol, options: DsmOptions = {}) {
  const rig = await opened(protocol, options);
  return { rig, dsm: rig.dsm, driver: rig.open() };
}

const uuidName = "pvc-0d6f8c0e-7f3a-4a53-9d0b-1c2d3e4f5a6b";

describe("shared folders", () => {
  test("over NFS have a quota, a rule for each host, and names that DSM accepts", async () => {
    const { driver, dsm } = await rigOf("nfs");
    const volume = await driver.create(volumeOf(uuidName), call);
    const [share] = dsm.state.shares.values();
    expect(share).toMatchObject({ quota: 1024, rules: [{ client: "10.0.0.0/24" }, { client: "10.0.1.7" }] });
    expect(share?.name.length).toBeLessThanOrEqual(32);
    expect(volume.context).toMatchObject({
      node_attach_driver: "nfs",
      server: "nas",
      share: `/volume1/${share?.name}`,
    });
  });

  test("over SMB are writable for the users and groups of the file", async () => {
    const { driver, dsm } = await rigOf("smb");
    const volume = await driver.create(volumeOf("pvc-1"), call);
    expect(volume.context).toMatchObject({ node_attach_driver: "smb", server: "nas", share: "k8s-pvc-1" });
    expect([...dsm.state.shares.values()][0]?.permissions).toEqual(["local_group apps", "local_user csi-nodes"]);
  });

  test("over SMB get their permissions again only if those differ", async () => {
    const { driver, dsm } = await rigOf("smb");
    const saved = async () => {
      const before = dsm.count("set");
      await driver.create(volumeOf("pvc-1"), call);
      return dsm.count("set") - before;
    };
    await saved();
    const [share] = dsm.state.shares.values();
    if (!share) throw new Error("no folder");
    const all = share.permissions;
    expect([await saved(), share.permissions]).toEqual([0, all]);
    for (const others of [["local_group apps"], [...all, "local_user eve"], ["local_group apps", "local_user eve"]]) {
      share.permissions = others;
      expect([await saved(), share.permissions]).toEqual([1, all]);
    }
  });

  test("have whole MiB: a size is rounded up, unless its limit forbids it", async () => {
    const { driver } = await rigOf("nfs");
    const spec = { ...volumeOf("pvc-1"), range: { required: gib + 1n, limit: undefined } };
    expect((await driver.create(spec, call)).bytes).toBe(gib + (1n << 20n));
    expect(await codeOf(driver.create(volumeOf("pvc-2", gib + 1n), call))).toBe("out-of-range");
  });

  test("beyond DSM's maximum number are resource-exhausted, and nothing remains", async () => {
    const { driver, rig, dsm } = await rigOf("nfs");
    dsm.state.habits.maxShares = 0;
    expect(await codeOf(driver.create(volumeOf("pvc-1"), call))).toBe("resource-exhausted");
    expect(await rig.remains()).toEqual([]);
  });

  test("that an interrupted call has made of a snapshot do not need it any more", async () => {
    const { driver, rig, dsm } = await rigOf("nfs");
    await driver.create(volumeOf("pvc-1"), call);
    const { id } = await snapshotsOf(driver).create("snap", "pvc-1", {}, call);
    const spec = volumeOf("pvc-2", gib, { kind: "snapshot", id });
    for (let step = 1; !dsm.state.shares.has("k8s-pvc-2"); step++)
      await codeOf(rig.dying(step, "after").driver.create(spec, call));
    await snapshotsOf(driver).delete(id, call);
    expect((await driver.create(spec, call)).source).toEqual({ kind: "snapshot", id });
    await driver.delete("pvc-2", call);
    expect(await codeOf(driver.create(spec, call))).toBe("not-found");
    expect([...dsm.state.shares.keys()]).toEqual(["k8s-pvc-1"]);
  });

  test("whose description a person has changed keep their snapshots, which are not reported as deleted", async () => {
    const { driver, dsm } = await rigOf("nfs");
    await driver.create(volumeOf("pvc-1"), call);
    const { id } = await snapshotsOf(driver).create("snap", "pvc-1", {}, call);
    const [share] = dsm.state.shares.values();
    const description = share?.description ?? "";
    if (share) share.description = "the shop's data";
    expect(await codeOf(snapshotsOf(driver).delete(id, call))).toBe("failed-precondition");
    if (share) share.description = description;
    await snapshotsOf(driver).delete(id, call);
    expect(share?.snapshots).toEqual([]);
  });

  test("get a snapshot in as many requests as with one folder; its name is free once it is deleted", async () => {
    const { driver, dsm } = await rigOf("nfs");
    const ids = Array.from({ length: 12 }, (_, n) => `pvc-${n}`);
    for (const id of ids) await driver.create(volumeOf(id), call);
    // As the router does, which keeps no ability.
    const snapshots = {
      create: (name: string, id: string) => snapshotsOf(driver).create(name, id, {}, call),
      delete: (id: string) => snapshotsOf(driver).delete(id, call),
    };
    const requestsOf = async (work: Promise<unknown>) => {
      const before = dsm.requests.length;
      await work;
      return dsm.requests.length - before;
    };
    // The first one asks for the names of all folders.
    const first = await snapshots.create("first", "pvc-0");
    for (const id of ids) expect(await requestsOf(snapshots.create(`of ${id}`, id))).toBeLessThan(6);
    expect(await requestsOf(codeOf(snapshots.create("first", "pvc-1")))).toBeLessThan(6);
    expect(await codeOf(snapshots.create("first", "pvc-1"))).toBe("already-exists");
    await snapshots.delete(first.id);
    expect((await snapshots.create("first", "pvc-1")).volumeId).toBe("pvc-1");
    expect(await codeOf(snapshots.create("first", "pvc-2"))).toBe("already-exists");
  });

  test("do not list snapshots of DSM's schedule; snapshots keep the size of their time", async () => {
    const { driver, dsm } = await rigOf("nfs");
    await driver.create(volumeOf("pvc-1"), call);
    const snapshot = await snapshotsOf(driver).create("snap", "pvc-1", {}, call);
    const [share] = dsm.state.shares.values();
    const scheduled = { time: "GMT+01-2025.03.23-15.17.39", description: "", content: undefined };
    if (share) share.snapshots = [...share.snapshots, scheduled];
    await driver.expand?.expand("pvc-1", { required: 4n * gib, limit: undefined }, call);
    const page = await snapshotsOf(driver).list({ volumeId: undefined }, { token: undefined, max: 9 }, call);
    expect(page.items).toEqual([snapshot]);
    expect(page.items[0]?.bytes).toBe(gib);
  });

  test.each([
    ["GMT+08-2022.01.14-19.18.29", "2022-01-14T11:18:29.000Z"],
    ["GMT-05-2022.01.14-19.18.29", "2022-01-15T00:18:29.000Z"],
    ["GMT+05:30-2022.01.14-19.18.29", "2022-01-14T13:48:29.000Z"],
  ])("have snapshots named by their time: %s is %s", (time, moment) => {
    expect(momentOf(time).toISOString()).toBe(moment);
  });
});
