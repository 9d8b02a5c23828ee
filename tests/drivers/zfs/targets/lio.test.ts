import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tagOf } from "../../../../lib/drivers/zfs/targets/names.ts";
import type { Script, Step } from "../../../../lib/io/script.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, getVolume, gib, volumeOf } from "../../../contract/rig.ts";
import { type ZfsRig, zfsRig } from "../zfs-rig.ts";
import { all, backstore, base, fault, group, iqns, lio, nameOf, savedPath, savedTargets } from "./lio-places.ts";

// Targets of LIO: what the kernel and the saved configuration get, and targets that are in use, lost or broken.

const call = callWith();
const opened = perTest(zfsRig);
const node = "iqn.1994-05.com.example:node-1";
const open = perTest(() => zfsRig({ driver: "zfs-generic-iscsi" }));

/** A host with the volume "a". */
async function withVolume(): Promise<ZfsRig> {
  const rig = await open();
  await rig.open().create(volumeOf("a"), call);
  return rig;
}

const without = async (rig: ZfsRig): Promise<unknown> =>
  rig
    .open()
    .delete("a", call)
    .catch((error: unknown) => error);

const note = (rig: ZfsRig, id: string) =>
  rig.fake.find(`tank/k/v/${id}`)?.own["democratic-csi:iscsi_assets_name"]?.value;

const linkIn = (folder: string): string =>
  readdirSync(join(folder, "lun/lun_0"), { withFileTypes: true }).find(each => each.isSymbolicLink())?.name ?? "";

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
  expect(readFileSync(join(folder, "lun/lun_0", linkIn(folder), "udev_path"), "utf8").trim()).toEndWith(
    "/dev/tank/k/v/PVC-1",
  );
});

test.each(["nolun", "noportal"])("a target with %s is not reported as made until it is complete", async what => {
  const rig = await open();
  fault(rig, what);
  expect(await codeOf(rig.open().create(volumeOf("a"), call))).toBe("unavailable");
  expect(await codeOf(getVolume(rig.open(), "a"))).toBe("not-found");
  fault(rig, "");
  expect((await rig.open().create(volumeOf("a"), call)).bytes).toBe(gib);
});

test("a backstore that the kernel does not enable is taken back, because nothing else finds it once its volume is gone", async () => {
  const rig = await open();
  fault(rig, "noenable");
  expect(await codeOf(rig.open().create(volumeOf("a"), call))).toBe("unavailable");
  expect(readdirSync(lio(rig, "core"))).toEqual([]);
});

test("what is made and removed is saved for after a reboot", async () => {
  const rig = await open();
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
  expect(argvs.join()).toContain("python3");
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
  fault(rig, `login ${node}`);
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
  expect(iqns(rig)).toEqual([`${base}:a`]);
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

test("csimux waits for a device without the lock of targetcli", async () => {
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
    async script({ steps: [first, ...rest], ...more }: Script, signal: AbortSignal) {
      if (first.name === "device") waits.push(locked);
      // udev makes it after csimux has looked for it.
      const late = (step: Step): Step =>
        step.name === "make" && step.stdin !== undefined && waits.length === 0
          ? { ...step, stdin: step.stdin.replaceAll("/k/v/b", "/k/v/late") }
          : step;
      return rig.host.script({ ...more, steps: [late(first), ...rest.map(late)] }, signal);
    },
  };
  await rig.on(host).create(volumeOf("b", gib), call);
  expect(waits).toEqual([false]);
});

test("a password reaches the kernel and the saved configuration whole, with characters that targetcli would cut", async () => {
  const password = `CHAP^{}|"'\`é€ü12`;
  const rig = await opened({
    driver: "zfs-generic-iscsi",
    strategy: { tpg: { attributes: { authentication: true }, auth: { userid: "n^de", password } } },
  });
  await rig.open().create(volumeOf("a"), call);
  expect(readFileSync(join(group(rig), "auth/password"), "utf8")).toBe(`${password}\n`);
  expect(readFileSync(join(group(rig), "attrib/authentication"), "utf8")).toBe("1\n");
  const saved = JSON.parse(readFileSync(savedPath(rig), "utf8"));
  expect(saved.targets[0].tpgs[0]).toMatchObject({ chap_userid: "n^de", chap_password: password });
});

test.each([
  ["NULLpassword12", "must not begin with"],
  ["x".repeat(256), "at most 255 bytes"],
  ["é".repeat(128), "at most 255 bytes"],
  ["two words 12", "one word"],
  ["bell\u0007bell12", "control characters"],
])("a password that the kernel would not keep whole is refused: %j", async (password, message) => {
  const strategy = { tpg: { auth: { userid: "node", password } } };
  const rig = await opened({ driver: "zfs-generic-iscsi", strategy });
  expect(() => rig.open()).toThrow(message);
});
