import { expect, test } from "bun:test";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, getVolume, volumeOf } from "../../../contract/rig.ts";
import { backstore, base, lio, nameOf, savedPath } from "../targets/lio-places.ts";
import { openZfs, type ZfsRig, zfsRig } from "../zfs-rig.ts";

// A volume that was sent with its properties (zfs send -R) to a second pool of one host, which is a connection, too.

const call = callWith();
const opened = perTest(zfsRig);
const copy = "tank/b/v/a";

/** The volume "a" as it is sent elsewhere with its properties, and the connection there. */
async function replicated(driver: string, spdk = false): Promise<{ readonly rig: ZfsRig; readonly second: Driver }> {
  const rig = await opened({ driver, spdk });
  await rig.open().create(volumeOf("a"), call);
  const { type, own = {} } = rig.fake.find("tank/k/v/a") ?? {};
  rig.fake.zfs("create", "-p", ...(type === "volume" ? ["-s", "-V", "1G"] : []), copy);
  rig.fake.with(pools => {
    const sent = Object.entries(own).filter(([key]) => key.includes(":") || key.startsWith("share"));
    const received = sent.map(([key, { value }]) => [key, { value, source: "received" as const }] as const);
    Object.assign(pools.find(copy)?.own ?? {}, Object.fromEntries(received));
  });
  const zfs = { datasetParentName: "tank/b/v", detachedSnapshotsDatasetParentName: "tank/b/s" };
  return { rig, second: openZfs({ driver, spdk, folder: rig.fake.folder, zfs }, rig.host) };
}

test("no answer about the copy names the share of the volume that it was sent from", async () => {
  const { rig, second } = await replicated("zfs-generic-nfs");
  const share = rig.fake.place(copy);
  expect((await getVolume(second, "a")).context).toMatchObject({ server: "nas", share });
  expect((await second.create(volumeOf("a"), call)).context).toMatchObject({ share });
  expect((await second.adoption?.adopt("a", false, call))?.context).toMatchObject({ share });
  const smb = await replicated("zfs-generic-smb");
  expect((await getVolume(smb.second, "a")).context).toMatchObject({ server: "nas", share: "tank_b_v_a" });
});

test.each(["zfs-generic-iscsi", "zfs-generic-nvmeof"])(
  "%s: the target of a volume is not printed for its copy",
  async driver => {
    const { rig, second } = await replicated(driver);
    const before = await rig.state();
    for (const mark of [false, true])
      expect(await codeOf(second.adoption?.adopt("a", mark, call) ?? Promise.resolve())).toBe("failed-precondition");
    expect(await rig.state()).toEqual(before);
    expect(await codeOf(rig.open().adoption?.adopt("a", false, call) ?? Promise.resolve())).toBe("ok");
  },
);

const restored = (driver: Driver) => codeOf(driver.health?.restore?.("a", call) ?? Promise.resolve());

test("LIO: nodes never find the copy at the target of its original, whose pool is not imported", async () => {
  const { rig, second } = await replicated("zfs-generic-iscsi");
  const target = lio(rig, "iscsi", `${base}:${nameOf(rig)}`);
  // The host has restored the target without its device, then nothing yet.
  rmSync(join(backstore(rig), ".."), { recursive: true });
  rmSync(join(target, "tpgt_1/lun/lun_0"), { recursive: true });
  expect(await restored(second)).toBe("failed-precondition");
  rmSync(target, { recursive: true });
  expect(await restored(second)).toBe("failed-precondition");
  expect(await restored(rig.open())).toBe("ok");
  // On another host nothing has the name.
  rmSync(lio(rig), { recursive: true });
  rmSync(savedPath(rig));
  for (const _ of ["lost", "there"]) expect(await restored(second)).toBe("ok");
  rmSync(lio(rig), { recursive: true });
  expect(await restored(second)).toBe("ok");
  expect(await restored(rig.open())).toBe("failed-precondition");
});

test("nvmet: nor at its subsystem", async () => {
  const { rig, second } = await replicated("zfs-generic-nvmeof");
  const at = (...parts: readonly string[]) => join(rig.fake.folder, "nvmet", ...parts);
  const [nqn = ""] = readdirSync(at("subsystems"));
  rmSync(at("subsystems", nqn, "namespaces/1"), { recursive: true });
  expect(await restored(second)).toBe("failed-precondition");
  for (const port of ["1", "2"]) rmSync(at("ports", port, "subsystems", nqn));
  rmSync(at("subsystems", nqn), { recursive: true });
  expect(await restored(second)).toBe("failed-precondition");
  rmSync(join(rig.fake.folder, "saved.json"));
  for (const _ of ["lost", "there"]) expect(await restored(second)).toBe("ok");
  rmSync(at("subsystems", nqn, "namespaces/1"), { recursive: true });
  expect(await restored(second)).toBe("ok");
});

test("SPDK: nor at its subsystem", async () => {
  const { rig, second } = await replicated("zfs-generic-nvmeof", true);
  const { bdevs, subsystems } = rig.spdk ?? {};
  bdevs?.clear();
  for (const each of subsystems?.values() ?? []) Object.assign(each, { namespaces: [] });
  expect(await restored(second)).toBe("failed-precondition");
  expect(await restored(rig.open())).toBe("ok");
});
