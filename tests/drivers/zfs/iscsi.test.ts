import { afterEach, expect, test } from "bun:test";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tagOf } from "../../../lib/drivers/zfs/targets/names.ts";
import type { Script } from "../../../lib/io/script.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { callWith, getVolume, gib, volumeOf } from "../../contract/rig.ts";
import { type ZfsRig, zfsRig } from "./zfs-rig.ts";

const call = callWith();
const base = "iqn.2024-01.org.example:storage";
const rigs: ZfsRig[] = [];
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});

async function open(): Promise<ZfsRig> {
  const rig = await zfsRig({ driver: "zfs-generic-iscsi" });
  rigs.push(rig);
  return rig;
}

const note = (rig: ZfsRig, id: string) =>
  rig.fake.find(`tank/k/v/${id}`)?.own["democratic-csi:iscsi_assets_name"]?.value;
/** The name of the target of a volume that is there, or of one that was: by what tells its zvol from a later one. */
const nameOf = (rig: ZfsRig, id: string): string =>
  `${id.toLowerCase()}-${tagOf(rig.fake.find(`tank/k/v/${id}`)?.guid ?? "")}`;
const groupOf = (rig: ZfsRig, id: string): string =>
  join(rig.fake.folder, "lio/iscsi", `${base}:${nameOf(rig, id)}`, "tpgt_1");
const fault = (rig: ZfsRig, name: string) => writeFileSync(join(rig.fake.folder, "lio-fault"), name);

const savedTargets = (rig: ZfsRig): readonly string[] => {
  const text = readFileSync(join(rig.fake.folder, "lio-saveconfig.json"), "utf8");
  return (JSON.parse(text) as { targets: { wwn: string }[] }).targets.map(({ wwn }) => wwn);
};

test("a volume is a target with one LUN, named and described as democratic-csi does", async () => {
  const rig = await open();
  const volume = await rig.open().create(volumeOf("PVC-1"), call);
  expect(volume.context).toEqual({
    node_attach_driver: "iscsi",
    provisioner_driver: "zfs-generic-iscsi",
    portal: "nas:3260",
    portals: "",
    interface: "",
    iqn: `${base}:${nameOf(rig, "PVC-1")}`,
    lun: "0",
  });
  expect(note(rig, "PVC-1")).toBe(nameOf(rig, "PVC-1"));
  const own = rig.fake.find("tank/k/v/PVC-1")?.own["democratic-csi:csi_share_volume_context"]?.value ?? "";
  expect(JSON.parse(own)).toMatchObject({ node_attach_driver: "iscsi", lun: 0 });
  const group = groupOf(rig, "PVC-1");
  expect(readFileSync(join(group, "auth", "userid"), "utf8")).toBe("node\n");
  expect(readFileSync(join(group, "lun/lun_0/link/udev_path"), "utf8").trim()).toEndWith("/dev/tank/k/v/PVC-1");
});

test.each(["nolun", "noportal"])(
  "a target with %s is not reported as made, though targetcli ends with 0, until it is complete",
  async what => {
    const rig = await open();
    fault(rig, what);
    expect(await codeOf(rig.open().create(volumeOf("a"), call))).toBe("unavailable");
    expect(await codeOf(getVolume(rig.open(), "a"))).toBe("not-found");
    fault(rig, "");
    if (what === "noportal") await rig.open().delete("a", call);
    expect((await rig.open().create(volumeOf("a"), call)).bytes).toBe(gib);
  },
);

test.each(["", "noautosave"])("what is made and removed is saved for after a reboot, also with %p", async what => {
  const rig = await open();
  fault(rig, what);
  await rig.open().create(volumeOf("a"), call);
  expect(savedTargets(rig)).toEqual([`${base}:${nameOf(rig, "a")}`]);
  await rig.open().delete("a", call);
  expect(savedTargets(rig)).toEqual([]);
});

test("the name of a target is recorded before the target is made", async () => {
  const rig = await open();
  for (let step = 1; ; step++) {
    const { driver, dead } = rig.dying(step, "after");
    await driver.create(volumeOf("a"), call).catch(() => {});
    if (rig.fake.targets().length > 0) expect([step, note(rig, "a")]).toEqual([step, nameOf(rig, "a")]);
    await rig.open().delete("a", call);
    expect([step, await rig.remains()]).toEqual([step, []]);
    if (!dead()) break;
  }
});

test.each(["a_b", "x".repeat(96)])("a name that no target can have is refused and leaves nothing: %s", async name => {
  const rig = await open();
  const code = await codeOf(rig.open().create(volumeOf(name), call));
  if (code !== "ok") expect([code, await rig.remains()]).toEqual(["invalid-argument", []]);
  else expect(name).not.toContain("_");
});

test("the target of a volume whose deletion is refused stays as it is", async () => {
  const rig = await open();
  await rig.open().create(volumeOf("a"), call);
  await rig.open().create(volumeOf("b", gib, { kind: "volume", id: "a" }), call);
  expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
  expect(existsSync(join(groupOf(rig, "a"), "lun/lun_0"))).toBe(true);
});

test("a lost target is made again when its volume is requested again", async () => {
  const rig = await open();
  await rig.open().create(volumeOf("a"), call);
  rmSync(join(rig.fake.folder, "lio"), { recursive: true });
  await rig.open().create(volumeOf("a"), call);
  expect(existsSync(join(groupOf(rig, "a"), "lun/lun_0"))).toBe(true);
});

test("no argv contains a CHAP secret", async () => {
  const rig = await open();
  const argvs: string[] = [];
  const script = (whole: Script, signal: AbortSignal) => {
    argvs.push(JSON.stringify(whole.steps.map(({ argv }) => argv)));
    return rig.host.script(whole, signal);
  };
  await rig.on({ ...rig.host, script }).create(volumeOf("a"), call);
  expect(argvs.join()).toContain("targetcli");
  expect(argvs.join()).not.toContain("secret12");
});
