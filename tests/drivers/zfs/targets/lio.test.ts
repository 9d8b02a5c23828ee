import { expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { tagOf } from "../../../../lib/drivers/zfs/targets/names.ts";
import type { Script } from "../../../../lib/io/script.ts";
import { below } from "../../../../scripts/check/below.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, getVolume, gib, volumeOf } from "../../../contract/rig.ts";
import { type ZfsRig, zfsRig } from "../zfs-rig.ts";

// Targets of LIO: the input of targetcli, and targets that are in use or not restored.

const call = callWith();
const opened = perTest(zfsRig);
const base = "iqn.2024-01.org.example:storage";
const node = "iqn.1994-05.com.example:node-1";
const open = perTest(() => zfsRig({ driver: "zfs-generic-iscsi" }));

/** A host with the volume "a". */
async function withVolume(): Promise<ZfsRig> {
  const rig = await open();
  await rig.open().create(volumeOf("a"), call);
  return rig;
}

const nameOf = (rig: ZfsRig, id = "a"): string =>
  `${id.toLowerCase()}-${tagOf(rig.fake.find(`tank/k/v/${id}`)?.guid ?? "")}`;
const lio = (rig: ZfsRig, ...parts: readonly string[]): string => join(rig.fake.folder, "lio", ...parts);
const group = (rig: ZfsRig, id = "a"): string => lio(rig, "iscsi", `${base}:${nameOf(rig, id)}`, "tpgt_1");
const savedPath = (rig: ZfsRig): string => join(rig.fake.folder, "lio-saveconfig.json");
const backstore = (rig: ZfsRig, id = "a"): string => {
  const name = nameOf(rig, id);
  const hba = readdirSync(lio(rig, "core")).find(each => existsSync(lio(rig, "core", each, name))) ?? "";
  return lio(rig, "core", hba, name);
};

/** The model of the kernel, and what is saved of it. */
const all = (rig: ZfsRig): readonly string[] => [...below(lio(rig)), readFileSync(savedPath(rig), "utf8")];

const without = async (rig: ZfsRig): Promise<unknown> =>
  rig
    .open()
    .delete("a", call)
    .catch((error: unknown) => error);

const fault = (rig: ZfsRig, name: string) => writeFileSync(join(rig.fake.folder, "lio-fault"), name);

const savedTargets = (rig: ZfsRig): readonly string[] => {
  const text = readFileSync(join(rig.fake.folder, "lio-saveconfig.json"), "utf8");
  return (JSON.parse(text) as { targets: { wwn: string }[] }).targets.map(({ wwn }) => wwn);
};
const note = (rig: ZfsRig, id: string) =>
  rig.fake.find(`tank/k/v/${id}`)?.own["democratic-csi:iscsi_assets_name"]?.value;

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
  const folder = group(rig, "PVC-1");
  expect(readFileSync(join(folder, "auth", "userid"), "utf8")).toBe("node\n");
  expect(readFileSync(join(folder, "lun/lun_0/link/udev_path"), "utf8").trim()).toEndWith("/dev/tank/k/v/PVC-1");
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
  expect(existsSync(join(group(rig, "a"), "lun/lun_0"))).toBe(true);
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

test("a session of an initiator with an ACL counts, and an ACL without a session does not", async () => {
  const rig = await withVolume();
  const acl = join(group(rig), "acls", node);
  mkdirSync(acl);
  // Linux 6.1, iscsi_target_configfs.c, lio_target_nacl_info_show.
  writeFileSync(join(acl, "info"), `InitiatorName: ${node}\nInitiatorAlias: \nLIO Session ID: 1\n`);
  expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
  writeFileSync(join(acl, "info"), `No active iSCSI Session for Initiator Endpoint: ${node}\n`);
  await rig.open().delete("a", call);
  expect(await rig.remains()).toEqual([]);
});

test("a session that appears while the target is being closed is found, and the portal is restored", async () => {
  const rig = await withVolume();
  // The last moment for a login: when the portal is removed.
  const rmdir = join(rig.fake.bin, "rmdir");
  writeFileSync(rmdir, `#!/bin/sh\nprintf '${node}\\n\\0' >tpgt_1/dynamic_sessions\nexec /bin/rmdir "$@"\n`);
  chmodSync(rmdir, 0o755);
  const before = all(rig);
  expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
  expect(all(rig)).toEqual(before);
  expect(readdirSync(join(group(rig), "np"))).toEqual(["0.0.0.0:3260"]);
});

test("a volume whose target has no tag keeps its target, which is removed with it", async () => {
  const rig = await withVolume();
  rig.fake.with(pools => {
    const thing = pools.find("tank/k/v/a");
    if (!thing) throw new Error("gone");
    const context = JSON.parse(thing.own["democratic-csi:csi_share_volume_context"]?.value ?? "{}") as object;
    thing.own["democratic-csi:csi_share_volume_context"] = {
      value: JSON.stringify({ ...context, iqn: `${base}:a` }),
      source: "local",
    };
    thing.own["democratic-csi:iscsi_assets_name"] = { value: "a", source: "local" };
  });
  rmSync(lio(rig), { recursive: true });
  rmSync(savedPath(rig));
  const volume = await rig.open().create(volumeOf("a"), call);
  expect(volume.context["iqn"]).toBe(`${base}:a`);
  expect(readdirSync(lio(rig, "iscsi"))).toEqual([`${base}:a`]);
  await rig.open().delete("a", call);
  expect(await rig.remains()).toEqual([]);
});

test("a name that is too long with its tag is cut, and one that is too long without it is refused", async () => {
  const room = 223 - base.length - 1;
  const parameters = { n: "y".repeat(room) };
  const driver = await opened({ driver: "zfs-generic-iscsi", section: { nameTemplate: "{{ parameters.n }}" } });
  const volume = await driver.open().create({ ...volumeOf("b"), parameters }, call);
  expect(volume.context["iqn"]).toHaveLength(223);
  expect(volume.context["iqn"]).toEndWith(`-${tagOf(driver.fake.find("tank/k/v/b")?.guid ?? "")}`);
  const longer = driver.open().create({ ...volumeOf("c"), parameters: { n: "y".repeat(room + 1) } }, call);
  expect(await codeOf(longer)).toBe("invalid-argument");
});

test("nothing is changed before the host has restored its targets, because saving would lose them", async () => {
  const rig = await withVolume();
  await rig.open().create(volumeOf("b"), call);
  const foreign = { fabric: "iscsi", wwn: "iqn.2003-01.org.other:x", tpgs: [{ tag: 1, luns: [{ index: 0 }] }] };
  const saved = JSON.parse(readFileSync(savedPath(rig), "utf8"));
  const text = JSON.stringify({
    storage_objects: [...saved.storage_objects, { plugin: "fileio", name: "theirs", dev: "/srv/disk" }],
    targets: [...saved.targets, foreign],
  });
  writeFileSync(savedPath(rig), text);
  const message = expect.stringContaining("fileio/theirs, iqn.2003-01.org.other:x;");
  expect(await without(rig)).toMatchObject({ code: "unavailable", message });
  expect(await codeOf(rig.open().create(volumeOf("c"), call))).toBe("unavailable");
  // A volume whose target is whole needs no change.
  await rig.open().create(volumeOf("b"), call);
  expect(readFileSync(savedPath(rig), "utf8")).toBe(text);
  mkdirSync(lio(rig, "core/fileio_3/theirs"), { recursive: true });
  writeFileSync(lio(rig, "core/fileio_3/theirs/udev_path"), "/srv/disk\n");
  mkdirSync(lio(rig, "iscsi/iqn.2003-01.org.other:x/tpgt_1/lun"), { recursive: true });
  // The target is there, and not yet the LUN whose disk the host still waits for.
  expect(await codeOf(rig.open().create(volumeOf("c"), call))).toBe("unavailable");
  mkdirSync(lio(rig, "iscsi/iqn.2003-01.org.other:x/tpgt_1/lun/lun_0"));
  await rig.open().create(volumeOf("c"), call);
});

test("a saved configuration that cannot be read is not replaced", async () => {
  const rig = await withVolume();
  writeFileSync(savedPath(rig), '{"storage_objects": [');
  expect(await codeOf(rig.open().create(volumeOf("b"), call))).toBe("unavailable");
  expect(await codeOf(rig.open().delete("a", call))).toBe("unavailable");
  expect(readFileSync(savedPath(rig), "utf8")).toBe('{"storage_objects": [');
});

test("a repeated deletion saves the removal of a target that an earlier one could not save", async () => {
  const rig = await withVolume();
  const name = nameOf(rig);
  rmSync(lio(rig), { recursive: true });
  expect(readFileSync(savedPath(rig), "utf8")).toContain(name);
  await rig.open().delete("a", call);
  expect(readFileSync(savedPath(rig), "utf8")).not.toContain(name);
});

test("a backstore that another target also leads to is not removed", async () => {
  const rig = await withVolume();
  const other = lio(rig, "iscsi/iqn.2003-01.org.other:y/tpgt_1/lun/lun_5");
  mkdirSync(other, { recursive: true });
  symlinkSync(backstore(rig), join(other, "link"));
  writeFileSync(
    join(backstore(rig), "alua/default_tg_pt_gp/members"),
    `iSCSI/${base}:${nameOf(rig)}/tpgt_1/lun_0\niSCSI/iqn.2003-01.org.other:y/tpgt_1/lun_5\n\0`,
  );
  expect(await without(rig)).toMatchObject({
    code: "failed-precondition",
    message: expect.stringContaining("iqn.2003-01.org.other:y/tpgt_1/lun_5"),
  });
  expect(existsSync(join(other, "link"))).toBe(true);
});

test("a target without a portal gets one", async () => {
  const rig = await withVolume();
  rmSync(join(group(rig), "np/0.0.0.0:3260"), { recursive: true });
  await rig.open().create(volumeOf("a"), call);
  expect(readdirSync(join(group(rig), "np"))).toEqual(["0.0.0.0:3260"]);
});

test("csimux waits for a device before it takes the lock of targetcli", async () => {
  const rig = await withVolume();
  let locked = false;
  const waits: boolean[] = [];
  const host = {
    ...rig.host,
    async exclusive<T>(name: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
      return rig.host.exclusive(name, signal, async () => {
        locked = true;
        return work().finally(() => {
          locked = false;
        });
      });
    },
    async script(whole: Script, signal: AbortSignal) {
      if (whole.steps.some(({ name }) => name === "device")) waits.push(locked);
      return rig.host.script(whole, signal);
    },
  };
  await rig.on(host).create(volumeOf("b", gib), call);
  expect(waits).toEqual([false]);
});
