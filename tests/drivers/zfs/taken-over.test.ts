import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { property } from "../../../lib/drivers/zfs/properties.ts";
import { tagOf } from "../../../lib/drivers/zfs/targets/names.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, getVolume, gib, snapshotIds, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { backstoreChanges, changed, savedByTargetcli, subsystemChanges, targetChanges } from "../../fakes/configfs.ts";
import { dataset, from, type ZfsRig, zfsRig } from "./zfs-rig.ts";

// Block devices as democratic-csi left them, of several ages: with the name of the target or without, with a context or without,
// with all marks of their snapshots or the few that there were once.

const call = callWith();
const opened = perTest(zfsRig);
const ours = (key: string): string => `democratic-csi:${key}`;

interface Kind {
  readonly driver: string;
  readonly base: string;
  readonly key: "iqn" | "nqn";
  readonly note: string;
  readonly context: object;
  /** Has the host show a zvol, as the tool of democratic-csi has it. */
  export(rig: ZfsRig, name: string, device: string): void;
}

const kinds: readonly Kind[] = [
  {
    driver: "zfs-generic-iscsi",
    base: "iqn.2024-01.org.example:storage",
    key: "iqn",
    note: "iscsi_assets_name",
    context: { node_attach_driver: "iscsi", portal: "old:3260", portals: "", interface: "", lun: 0 },
    export(rig, name, device) {
      const [, asset = ""] = name.split("storage:");
      const { folder } = rig.fake;
      changed(folder, [...backstoreChanges(0, asset, device), ...targetChanges(folder, 0, asset, name)]);
      savedByTargetcli(folder);
    },
  },
  {
    driver: "zfs-generic-nvmeof",
    base: "nqn.2024-01.org.example:storage",
    key: "nqn",
    note: "nvmeof_assets_name",
    context: { node_attach_driver: "nvmeof", transport: "tcp://old:4420", transports: "", nsid: 1 },
    export(rig, name, device) {
      changed(rig.fake.folder, subsystemChanges(name, device));
    },
  },
];

/** What may be missing on a volume. */
const ages = [
  ["of now", { named: true, told: true, driver: true }],
  ["without the property that names its target", { named: false, told: true, driver: true }],
  ["without a context", { named: true, told: false, driver: true }],
  ["with nothing but its marks", { named: false, told: false, driver: false }],
] as const;

describe.each(kinds.map(kind => [kind.driver, kind] as const))("%s", (driver, kind) => {
  test.each(ages)("a volume %s is listed, grown, cloned, and deleted with its target", async (_, age) => {
    const rig = await opened({ driver });
    const name = "tank/k/v/PVC-1";
    const whole = `${kind.base}:pvc-1`;
    const values: Record<string, string> = {
      [ours("managed_resource")]: "true",
      [ours("provision_success")]: "true",
      ...(age.driver && { [ours("csi_volume_name")]: "PVC-1", [ours("volume_context_provisioner_driver")]: driver }),
      ...(age.named && { [ours(kind.note)]: "pvc-1" }),
      ...(age.told && { [ours("csi_share_volume_context")]: JSON.stringify({ ...kind.context, [kind.key]: whole }) }),
    };
    rig.fake.zfs("create", "-p", "tank/k/v");
    const options = Object.entries(values).flatMap(([key, value]) => ["-o", `${key}=${value}`]);
    rig.fake.zfs("create", ...options, "-V", String(gib), name);
    kind.export(rig, whole, join(rig.fake.folder, "dev", name));
    rig.fake.zfs(
      ...["snapshot", "-o", `${ours("managed_resource")}=true`, "-o", `${ours("csi_snapshot_name")}=s`],
      ...["-o", `${ours("provision_success")}=true`, `${name}@s`],
    );
    const open = rig.open();
    expect(await volumeIds(open)).toEqual(["PVC-1"]);
    const { bytes, context } = await getVolume(open, "PVC-1");
    expect([bytes, context[kind.key]]).toEqual([gib, age.told ? whole : undefined]);
    expect(await snapshotIds(open)).toEqual(["PVC-1@s"]);
    expect((await open.expand?.expand("PVC-1", { required: 2n * gib, limit: undefined }, call))?.bytes).toBe(2n * gib);
    const clone = await open.create(volumeOf("clone", gib, from("PVC-1@s")), call);
    const tag = tagOf(rig.fake.find("tank/k/v/clone")?.guid ?? "");
    expect(clone.context[kind.key]).toBe(`${kind.base}:clone-${tag}`);
    await open.delete("clone", call);
    await snapshotsOf(open).delete("PVC-1@s", call);
    await open.delete("PVC-1", call);
    expect(await rig.remains()).toEqual([]);
  });

  /** A zvol whose creation ended between the target and the note of its name. */
  function leftUnfinished(rig: ZfsRig, device: string): void {
    const marks = [`${ours("managed_resource")}=true`, `${ours("csi_volume_name")}=PVC-1`];
    rig.fake.zfs("create", "-p", "tank/k/v");
    for (const id of ["PVC-1", "other"])
      rig.fake.zfs("create", ...marks.flatMap(mark => ["-o", mark]), "-V", String(gib), `tank/k/v/${id}`);
    kind.export(rig, `${kind.base}:pvc-1`, join(rig.fake.folder, "dev/tank/k/v", device));
  }
  const newName = (rig: ZfsRig): string => `${kind.base}:pvc-1-${tagOf(rig.fake.find("tank/k/v/PVC-1")?.guid ?? "")}`;

  /** Makes and deletes PVC-1, whose creation left a target that leads to `device`. */
  async function madeAndDeleted(device: string): Promise<ZfsRig> {
    const rig = await opened({ driver });
    leftUnfinished(rig, device);
    const { context } = await rig.open().create(volumeOf("PVC-1"), call);
    expect(context[kind.key]).toBe(newName(rig));
    await rig.open().delete("PVC-1", call);
    return rig;
  }

  test("a volume that it left with a target, and without the name of that, is made, and deleted with all of it", async () => {
    const rig = await madeAndDeleted("PVC-1");
    rig.fake.zfs("destroy", "tank/k/v/other");
    expect(await rig.remains()).toEqual([]);
  });

  test("a target of that name that leads to another zvol stays", async () => {
    const rig = await madeAndDeleted("other");
    expect((await rig.remains()).join()).toContain("pvc-1");
  });
});

describe("a pool that democratic-csi wrote", () => {
  const written = (rig: ZfsRig): void => {
    const context = JSON.stringify({ node_attach_driver: "nfs", server: "old", share: "/mnt/tank/k/v/pvc-1" });
    const done = { [property.managed]: "true", [property.success]: "true" };
    const set = (name: string, values: Record<string, string>) =>
      rig.fake.zfs("set", ...Object.entries({ ...done, ...values }).map(([key, value]) => `${key}=${value}`), name);
    const shared = { refquota: "1G", sharenfs: "rw", [property.context]: context };
    const snapshot = (name: string) => ({ [property.snapshotName]: name, [property.snapshotVolume]: "pvc-1" });
    for (const id of ["pvc-1", "pvc-old", "pvc-broken"]) rig.fake.zfs("create", "-p", dataset(id));
    set(dataset("pvc-1"), { ...shared, [property.volumeName]: "pvc-1", [property.driver]: "zfs-generic-nfs" });
    // Older ones have neither a name nor a driver.
    set(dataset("pvc-old"), { refquota: "2G", [property.context]: context });
    set(dataset("pvc-broken"), { refquota: "1G", [property.context]: "{" });
    for (const name of ["snapshot-1", "autosnap"]) rig.fake.zfs("snapshot", `${dataset("pvc-1")}@${name}`);
    set(`${dataset("pvc-1")}@snapshot-1`, snapshot("snapshot-1"));
    rig.fake.zfs("snapshot", `${dataset("pvc-1")}@volume-source-for-volume-pvc-2`);
    rig.fake.zfs("clone", `${dataset("pvc-1")}@volume-source-for-volume-pvc-2`, dataset("pvc-2"));
    const source = { [property.sourceKind]: "volume", [property.sourceId]: "pvc-1" };
    set(dataset("pvc-2"), { ...shared, ...source, [property.volumeName]: "pvc-2" });
    rig.fake.zfs("create", "-p", "tank/k/s/pvc-1/snapshot-2");
    set("tank/k/s/pvc-1/snapshot-2", snapshot("snapshot-2"));
  };

  test("is listed with its complete volumes and CSI snapshots only", async () => {
    const rig = await opened({ driver: "zfs-generic-nfs" });
    written(rig);
    expect(await volumeIds(rig.open())).toEqual(["pvc-1", "pvc-2", "pvc-broken", "pvc-old"]);
    const volume = await getVolume(rig.open(), "pvc-1");
    // The server is that of the file, whatever the storage says.
    expect(volume).toMatchObject({ bytes: gib, context: { server: "nas", share: "/mnt/tank/k/v/pvc-1" } });
    expect((await getVolume(rig.open(), "pvc-2")).source).toEqual({ kind: "volume", id: "pvc-1" });
    expect((await getVolume(rig.open(), "pvc-broken")).context["server"]).toBe("nas");
    expect(await snapshotIds(rig.open())).toEqual(["pvc-1/snapshot-2", "pvc-1@snapshot-1"]);
  });

  test("is served, grown, cloned and deleted in every order that its dependents allow", async () => {
    const rig = await opened({ driver: "zfs-generic-nfs" });
    written(rig);
    const driver = rig.open();
    expect((await driver.create(volumeOf("pvc-1"), call)).context["share"]).toBe("/mnt/tank/k/v/pvc-1");
    expect((await driver.create(volumeOf("pvc-2", gib, from("pvc-1")), call)).id).toBe("pvc-2");
    expect(await driver.expand?.expand("pvc-1", { required: 3n * gib, limit: undefined }, call)).toMatchObject({
      bytes: 3n * gib,
    });
    await driver.create(volumeOf("restored", gib, from("pvc-1@snapshot-1")), call);
    await driver.create(volumeOf("from-copy", gib, from("pvc-1/snapshot-2")), call);
    expect(await codeOf(driver.delete("pvc-1", call))).toBe("failed-precondition");
    for (const id of ["restored", "from-copy", "pvc-2"]) await driver.delete(id, call);
    for (const id of ["pvc-1@snapshot-1", "pvc-1/snapshot-2"]) await snapshotsOf(driver).delete(id, call);
    for (const id of ["pvc-1", "pvc-old", "pvc-broken"]) await driver.delete(id, call);
    expect(await rig.remains()).toEqual([]);
  });
});
