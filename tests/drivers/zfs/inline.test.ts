import { expect, test } from "bun:test";
import type { InlineAbility } from "../../../lib/drivers/driver.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith } from "../../contract/rig.ts";
import { type ZfsRig, zfsRig } from "./zfs-rig.ts";

const call = callWith();
const opened = perTest(zfsRig);
const id = `csi-${"ab".repeat(32)}`;
const name = `tank/k/v/v/${id}`;
async function open(properties: object = {}): Promise<{ rig: ZfsRig; inline: InlineAbility }> {
  const rig = await opened({ driver: "zfs-local-ephemeral-inline", zfs: { properties } });
  const { inline } = rig.open();
  if (!inline) throw new Error("it cannot do that");
  return { rig, inline };
}

const begin = async (): Promise<void> => {};
const own = (rig: ZfsRig): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(rig.fake.find(name)?.own ?? {}).map(([key, { value }]) => [key, value]));

test("a volume is a dataset below v with the properties that democratic-csi writes, and only the node mounts it", async () => {
  const { rig, inline } = await open({ compression: { value: "lz4" } });
  const attributes = { connection: "c1", size: "10Mi", "property.atime": "off", "csi.storage.k8s.io/pod.name": "web" };
  const made = await inline.make(id, attributes, begin, call);
  expect(made).toEqual({ fsType: "zfs", source: name, identity: rig.fake.find(name)?.guid ?? "" });
  expect(own(rig)).toEqual({
    refquota: String(10 << 20),
    atime: "off",
    compression: "lz4",
    mountpoint: "legacy",
    "democratic-csi:csi_volume_name": id,
    "democratic-csi:managed_resource": "true",
    "democratic-csi:provision_success": "true",
    "democratic-csi:volume_context_provisioner_driver": "zfs-local-ephemeral-inline",
  });
  expect(await inline.make(id, attributes, begin, call)).toEqual(made);
  await inline.remove(id, made.identity, call);
  await inline.remove(id, made.identity, call);
  expect(rig.fake.find(name)).toBeUndefined();
});

test("properties that the file fixes override the pod's, those that it proposes do not", async () => {
  const { rig, inline } = await open({
    refquota: { value: "10M", allowOverride: false },
    atime: { value: "on", allowOverride: true },
    "org.example:team": { value: "a" },
  });
  await inline.make(id, { size: "100Gi", "property.atime": "off", "property.org.example:team": "b" }, begin, call);
  expect(own(rig)).toMatchObject({ refquota: "10485760", atime: "off", "org.example:team": "b" });
});

test("a pod chooses properties that cost the whole node only where the file allows it", async () => {
  const { rig, inline } = await open({ copies: { value: "1", allowOverride: true } });
  await inline.make(id, { "property.copies": "2" }, begin, call);
  expect(own(rig)).toMatchObject({ copies: "2" });
});

test.each([
  { "property.mountpoint": "/etc" },
  { "property.sharenfs": "rw" },
  { "property.setuid": "on" },
  { "property.dedup": "on" },
  { "property.copies": "3" },
  { "property.encryption": "on" },
  { "property.special_small_blocks": "1M" },
  { "property.toString": "x" },
  { "property.hasOwnProperty": "x" },
  { "property.__proto__": "x" },
  { "property.constructor": "x" },
  { "property.democratic-csi:managed_resource": "false" },
  { "property.refreservation": "1T" },
  { "property.compression": "lz4\nx" },
  { propertyatime: "off" },
  { size: "much" },
  { size: "-1" },
])("a pod cannot ask for %j, and nothing is begun", async attributes => {
  const { rig, inline } = await open();
  let begun = false;
  const work = inline.make(
    id,
    attributes as Record<string, string>,
    async () => {
      begun = true;
    },
    call,
  );
  expect([await codeOf(work), begun, rig.fake.find(name)]).toEqual(["invalid-argument", false, undefined]);
});

test.each(["../x", "a/b", "a@b", "-r", "", "a b", "x".repeat(300), "a,b", "%"])(
  "%j is not the id of a volume, and reaches no command",
  async hostile => {
    const { rig, inline } = await open();
    rig.fake.commands();
    expect(await codeOf(inline.make(hostile, {}, begin, call))).toBe("invalid-argument");
    expect(await codeOf(inline.remove(hostile, undefined, call))).toBe("invalid-argument");
    expect(rig.fake.commands()).toEqual([]);
  },
);

test("a dataset that was not made for this volume is neither used nor destroyed", async () => {
  const { rig, inline } = await open();
  rig.fake.zfs("create", "-p", name);
  expect(await codeOf(inline.make(id, {}, begin, call))).toBe("failed-precondition");
  expect(await codeOf(inline.remove(id, undefined, call))).toBe("failed-precondition");
  rig.fake.zfs("set", "democratic-csi:managed_resource=true", "democratic-csi:csi_volume_name=other", name);
  expect(await codeOf(inline.remove(id, undefined, call))).toBe("failed-precondition");
  expect(rig.fake.find(name)).toBeDefined();
});

test("inherited marks prove nothing", async () => {
  const { rig, inline } = await open();
  rig.fake.zfs("create", "-p", name);
  rig.fake.zfs("set", "democratic-csi:managed_resource=true", `democratic-csi:csi_volume_name=${id}`, "tank/k/v/v");
  expect(await codeOf(inline.remove(id, undefined, call))).toBe("failed-precondition");
  expect(rig.fake.find(name)).toBeDefined();
});

test("another dataset of the same name, and one with a foreign dataset in it, stay", async () => {
  const { rig, inline } = await open();
  const made = await inline.make(id, {}, begin, call);
  expect(await codeOf(inline.remove(id, "1", call))).toBe("failed-precondition");
  rig.fake.zfs("create", `${name}/theirs`);
  expect(await codeOf(inline.remove(id, made.identity, call))).toBe("failed-precondition");
  expect(rig.fake.find(`${name}/theirs`)).toBeDefined();
});

test("a dataset is the volume of an id only by its whole name, its own marks and this connection", async () => {
  const { rig, inline } = await open();
  // What democratic-csi makes, which ZFS mounts at the pod's folder.
  const marks = [
    ...["-o", `democratic-csi:csi_volume_name=${id}`, "-o", "democratic-csi:managed_resource=true"],
    ...["-o", "democratic-csi:volume_context_provisioner_driver=zfs-local-ephemeral-inline"],
  ];
  rig.fake.zfs("create", "-p", ...marks, name);
  expect(await inline.identityOf(id, name, call)).toBe(rig.fake.find(name)?.guid ?? "");
  expect(await inline.identityOf(id, `tank/k/v/w/v/${id}`, call)).toBeUndefined();
  expect(await inline.identityOf("../x", "tank/k/v/v/../x", call)).toBeUndefined();
  rig.fake.zfs("set", "democratic-csi:volume_context_provisioner_driver=zfs-local-dataset", name);
  expect(await inline.identityOf(id, name, call)).toBeUndefined();
  rig.fake.zfs("destroy", name);
  expect(await inline.identityOf(id, name, call)).toBeUndefined();
});

test("a pool that is not imported is unavailable: its volumes do not count as deleted", async () => {
  const { rig, inline } = await open();
  const made = await inline.make(id, {}, begin, call);
  rig.fake.with(pools => {
    pools.state.pools["tank"] = { bytes: 2 ** 40, imported: false };
  });
  expect(await codeOf(inline.remove(id, made.identity, call))).toBe("unavailable");
  expect(await codeOf(inline.identityOf(id, name, call))).toBe("unavailable");
});

test("a claim gets no inline volume", async () => {
  const { rig } = await open();
  const spec = { name: "a" } as never;
  expect(await codeOf(rig.open().create(spec, call))).toBe("invalid-argument");
  expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
});
