import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tagOf, uuidOf } from "../../../../lib/drivers/zfs/targets/names.ts";
import { below } from "../../../../scripts/check/below.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, volumeOf } from "../../../contract/rig.ts";
import { changed } from "../../../fakes/configfs.ts";
import type { FakeSpdk } from "../../../fakes/spdk.ts";
import { around, type ZfsOptions, type ZfsRig, zfsRig } from "../zfs-rig.ts";

// What holds for targets of LIO, nvmet and SPDK alike.

const call = callWith();
const opened = perTest(zfsRig);
/** A tool of targets, as a test sees it; `name` is a qualified name. */
interface TargetModel {
  readonly options: ZfsOptions;
  readonly base: string;
  readonly note: string;
  readonly node: string;
  /** All targets of the host, with what is saved of them. */
  state(rig: ZfsRig): unknown;
  /** A node connects, or leaves. */
  connect(rig: ZfsRig, name: string, on: boolean): void;
  /** Whether a node could connect. */
  isOpen(rig: ZfsRig, name: string): boolean;
  /** The host loses all targets. */
  lose(rig: ZfsRig): void;
  /** By what nodes recognise the disk. */
  identity(rig: ZfsRig, name: string): string;
  /** A person makes a target without a disk; returns how it is now. */
  byHand(rig: ZfsRig, name: string): () => unknown;
}

const at = ({ fake }: ZfsRig, ...parts: readonly string[]): string => join(fake.folder, ...parts);
const group = (rig: ZfsRig, name: string): string => at(rig, "lio/iscsi", name, "tpgt_1");
const spdkOf = ({ spdk }: ZfsRig): FakeSpdk => {
  if (!spdk) throw new Error("no SPDK");
  return spdk;
};

const nqns = {
  base: "nqn.2024-01.org.example:storage",
  note: "nvmeof_assets_name",
  node: "nqn.2014-08.org.nvmexpress:uuid:node-1",
} as const;

const models: Readonly<Record<string, TargetModel>> = {
  LIO: {
    options: { driver: "zfs-generic-iscsi" },
    base: "iqn.2024-01.org.example:storage",
    note: "iscsi_assets_name",
    node: "iqn.1994-05.com.example:node-1",
    state: rig => [below(at(rig, "lio")), readFileSync(at(rig, "lio-saveconfig.json"), "utf8")],
    connect(rig, name, on) {
      writeFileSync(join(group(rig, name), "dynamic_sessions"), on ? `${this.node}\n\0` : "");
    },
    isOpen: (rig, name) => existsSync(join(group(rig, name), "np/0.0.0.0:3260")),
    lose: rig => rmSync(at(rig, "lio"), { recursive: true }),
    identity(rig, name) {
      const backstore = name.slice(this.base.length + 1);
      const hba = readdirSync(at(rig, "lio/core")).find(each => existsSync(at(rig, "lio/core", each, backstore))) ?? "";
      return readFileSync(at(rig, "lio/core", hba, backstore, "wwn/vpd_unit_serial"), "utf8");
    },
    byHand(rig, name) {
      rmSync(at(rig, "lio-saveconfig.json"));
      changed(rig.fake.folder, [
        ["mkdir", "lio/iscsi"],
        ["mkdir", `lio/iscsi/${name}`],
        ["mkdir", `lio/iscsi/${name}/tpgt_1`],
      ]);
      return () => readdirSync(group(rig, name));
    },
  },
  nvmet: {
    ...nqns,
    options: { driver: "zfs-generic-nvmeof" },
    state: rig => [below(at(rig, "nvmet")), readFileSync(at(rig, "saved.json"), "utf8")],
    // Linux 6.11, drivers/nvme/target/debugfs.c.
    connect(rig, name, on) {
      const folder = at(rig, "controllers", name, "ctrl1");
      mkdirSync(folder, { recursive: true });
      if (on) writeFileSync(join(folder, "hostnqn"), `${this.node}\n`);
      else rmSync(folder, { recursive: true });
    },
    isOpen: (rig, name) => existsSync(at(rig, "nvmet/ports/1/subsystems", name)),
    lose(rig) {
      for (const folder of ["subsystems", "ports/1/subsystems", "ports/2/subsystems"])
        for (const name of readdirSync(at(rig, "nvmet", folder)))
          rmSync(at(rig, "nvmet", folder, name), { recursive: true });
    },
    identity: (rig, name) => readFileSync(at(rig, "nvmet/subsystems", name, "namespaces/1/device_uuid"), "utf8"),
    byHand(rig, name) {
      changed(rig.fake.folder, [["mkdir", `nvmet/subsystems/${name}`]]);
      return () => readdirSync(at(rig, "nvmet/subsystems", name));
    },
  },
  SPDK: {
    ...nqns,
    options: { driver: "zfs-generic-nvmeof", spdk: true },
    state: rig => structuredClone([spdkOf(rig).bdevs, spdkOf(rig).subsystems]),
    connect(rig, name, on) {
      spdkOf(rig).controllers.set(name, on ? [{ cntlid: 1, hostnqn: this.node }] : []);
    },
    isOpen: (rig, name) => spdkOf(rig).subsystems.has(name),
    lose(rig) {
      spdkOf(rig).bdevs.clear();
      spdkOf(rig).subsystems.clear();
    },
    identity: (rig, name) => String(spdkOf(rig).bdevs.get(name)?.filename),
    byHand(rig, name) {
      const { subsystems } = spdkOf(rig);
      subsystems.set(name, { nqn: name, attributes: {}, namespaces: [], listen_addresses: [] });
      return () => structuredClone(subsystems.get(name));
    },
  },
};

describe.each(Object.entries(models))("a target of %s", (title, model) => {
  /** A host with the volume "a". */
  async function open(): Promise<ZfsRig> {
    const rig = await opened(model.options);
    await rig.open().create(volumeOf("a"), call);
    return rig;
  }
  const guidOf = (rig: ZfsRig): string => rig.fake.find("tank/k/v/a")?.guid ?? "";
  const nameOf = (rig: ZfsRig): string => `${model.base}:a-${tagOf(guidOf(rig))}`;
  const ownOf = (rig: ZfsRig) => rig.fake.find("tank/k/v/a")?.own[`democratic-csi:${model.note}`]?.value;

  test("has its name recorded before it is made", async () => {
    const rig = await open();
    await rig.open().delete("a", call);
    for (let step = 1; ; step++) {
      const { driver, dead } = rig.dying(step, "after");
      await driver.create(volumeOf("a"), call).catch(() => {});
      if (model.isOpen(rig, nameOf(rig))) expect([step, `${model.base}:${ownOf(rig)}`]).toEqual([step, nameOf(rig)]);
      await rig.open().delete("a", call);
      expect([step, await rig.remains()]).toEqual([step, []]);
      if (!dead()) break;
    }
  });

  test("is not removed while a node uses it, nor is its volume, until the node has left", async () => {
    const rig = await open();
    model.connect(rig, nameOf(rig), true);
    const before = model.state(rig);
    const refused = rig.open().delete("a", call);
    await expect(refused).rejects.toMatchObject({
      code: "failed-precondition",
      message: expect.stringContaining(model.node),
    });
    expect(model.state(rig)).toEqual(before);
    expect(rig.fake.find("tank/k/v/a")).toBeDefined();
    model.connect(rig, nameOf(rig), false);
    await rig.open().delete("a", call);
    expect(await rig.remains()).toEqual([]);
  });

  test("that a node could reach in an interrupted deletion never loses a disk in use", async () => {
    const rig = await open();
    for (let step = 1; ; step++) {
      const { driver, dead } = rig.dying(step, "after");
      await driver.delete("a", call).catch(() => {});
      const name = nameOf(rig);
      if (rig.fake.find("tank/k/v/a") && model.isOpen(rig, name)) {
        model.connect(rig, name, true);
        expect([step, await codeOf(rig.open().delete("a", call))]).toEqual([step, "failed-precondition"]);
        model.connect(rig, name, false);
      }
      await rig.open().delete("a", call);
      expect([step, await rig.remains()]).toEqual([step, []]);
      if (!dead()) break;
      await rig.open().create(volumeOf("a"), call);
    }
  });

  test("has another name when its volume replaces a deleted one, so that old nodes do not reach it", async () => {
    const rig = await open();
    const old = nameOf(rig);
    await rig.open().delete("a", call);
    const { context } = await rig.open().create(volumeOf("a"), call);
    expect([nameOf(rig) !== old, Object.values(context)]).toEqual([true, expect.arrayContaining([nameOf(rig)])]);
    expect((await rig.open().create(volumeOf("a"), call)).context).toEqual(context);
  });

  test("that its host has lost is made again as the same disk when its volume is requested again", async () => {
    const rig = await open();
    const before = model.identity(rig, nameOf(rig));
    if (title !== "SPDK") expect(before).toContain(uuidOf(guidOf(rig)));
    model.lose(rig);
    await rig.open().create(volumeOf("a"), call);
    expect([model.isOpen(rig, nameOf(rig)), model.identity(rig, nameOf(rig))]).toEqual([true, before]);
  });

  test("that a person made under the recorded name is neither completed nor removed", async () => {
    const rig = await open();
    rig.fake.with(pools => {
      const own = pools.find("tank/k/v/a")?.own;
      if (!own) throw new Error("gone");
      delete own["democratic-csi:provision_success"];
      delete own["democratic-csi:csi_share_volume_context"];
      own[`democratic-csi:${model.note}`] = { value: "plain", source: "local" };
    });
    model.lose(rig);
    const made = model.byHand(rig, `${model.base}:plain`);
    const before = made();
    expect(await codeOf(rig.open().create(volumeOf("a"), call))).not.toBe("ok");
    expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
    expect(made()).toEqual(before);
  });
});

test.each(["zfs-generic-iscsi", "zfs-generic-nvmeof"])(
  "%s has udev look again at a zvol that it has given up, and at no other",
  async driver => {
    const rig = await opened({ driver });
    const disks = { zd0: "230:0", zd16: "230:16", sda: "8:0" };
    for (const [name, number] of Object.entries(disks)) {
      mkdirSync(at(rig, "blocks", name), { recursive: true });
      writeFileSync(at(rig, "blocks", name, "dev"), `${number}\n`);
      writeFileSync(at(rig, "blocks", name, "uevent"), "");
    }
    mkdirSync(at(rig, "udev"));
    writeFileSync(at(rig, "udev/b230:0"), "");
    const events = (): readonly string[] =>
      Object.keys(disks).filter(name => readFileSync(at(rig, "blocks", name, "uevent"), "utf8") === "add");
    const device = at(rig, "dev/tank/k/v/a");
    const host = around(rig.host, async (whole, run) => {
      const isMade = whole.steps.some(({ name }) => name === "make");
      if (isMade && events().length === 0) rmSync(device, { force: true });
      const outputs = await run();
      // udev makes links for the devices whose events it gets (udev(7)).
      if (events().includes("zd16")) writeFileSync(device, "");
      return outputs;
    });
    await rig.on(host).create(volumeOf("a"), call);
    expect(events()).toEqual(["zd16"]);
  },
);
