import { afterEach, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tagOf, uuidOf } from "../../../lib/drivers/zfs/targets/names.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { callWith, getVolume, gib, volumeOf } from "../../contract/rig.ts";
import { type ZfsOptions, type ZfsRig, zfsRig } from "./zfs-rig.ts";

const call = callWith();
const base = "nqn.2024-01.org.example:storage";
const rigs: ZfsRig[] = [];
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});

async function open(more: Partial<ZfsOptions> = {}): Promise<ZfsRig> {
  const rig = await zfsRig({ driver: "zfs-generic-nvmeof", ...more });
  rigs.push(rig);
  return rig;
}

const at = (rig: ZfsRig, path: string): string => join(rig.fake.folder, "nvmet", path);
const text = (rig: ZfsRig, path: string): string => readFileSync(at(rig, path), "utf8").trim();
const note = (rig: ZfsRig, id: string) =>
  rig.fake.find(`tank/k/v/${id}`)?.own["democratic-csi:nvmeof_assets_name"]?.value;
/** The name of the subsystem of a volume that is there. */
const nqnOf = (rig: ZfsRig, id: string): string =>
  `${base}:${id.toLowerCase()}-${tagOf(rig.fake.find(`tank/k/v/${id}`)?.guid ?? "")}`;
const fault = (rig: ZfsRig, name: string) => writeFileSync(join(rig.fake.folder, "nvmet-fault"), name);

test("a volume is a subsystem with one namespace, named and described as democratic-csi does, and saved", async () => {
  const rig = await open({ programs: true });
  const volume = await rig.open().create(volumeOf("PVC_1"), call);
  const nqn = nqnOf(rig, "PVC_1");
  expect(volume.context).toEqual({
    ...{ node_attach_driver: "nvmeof", provisioner_driver: "zfs-generic-nvmeof" },
    ...{ transport: "", transports: "tcp://nas:4420,tcp://nas2:4420", nqn, nsid: "1" },
  });
  expect(`${base}:${note(rig, "PVC_1")}`).toBe(nqn);
  const own = rig.fake.find("tank/k/v/PVC_1")?.own["democratic-csi:csi_share_volume_context"]?.value ?? "";
  expect(JSON.parse(own)).toMatchObject({ node_attach_driver: "nvmeof", nsid: 1 });
  expect(text(rig, `subsystems/${nqn}/attr_allow_any_host`)).toBe("1");
  expect(text(rig, `subsystems/${nqn}/namespaces/1/device_path`)).toEndWith("/dev/tank/k/v/PVC_1");
  for (const port of [1, 2]) expect(existsSync(at(rig, `ports/${port}/subsystems/${nqn}`))).toBe(true);
  expect(readFileSync(join(rig.fake.folder, "saved.json"), "utf8")).toContain(nqn);
  await rig.open().delete("PVC_1", call);
  expect(await rig.remains()).toEqual([]);
  expect(readFileSync(join(rig.fake.folder, "saved.json"), "utf8")).not.toContain(nqn);
});

test.each(["nolink", "noenable", "nosave"])(
  "a subsystem with %s is not reported as made, though nvmetcli ends with 0, until it is complete and saved",
  async what => {
    const rig = await open();
    fault(rig, what);
    expect(await codeOf(rig.open().create(volumeOf("a"), call))).toBe("unavailable");
    expect(await codeOf(getVolume(rig.open(), "a"))).toBe("not-found");
    fault(rig, "");
    expect((await rig.open().create(volumeOf("a"), call)).bytes).toBe(gib);
    expect(readFileSync(join(rig.fake.folder, "saved.json"), "utf8")).toContain(nqnOf(rig, "a"));
  },
);

test("nothing is made or removed before the host has restored its subsystems, because saving would lose them", async () => {
  const marker = join(process.env["TMPDIR"] ?? "/tmp", `csimux-nvmet-${crypto.randomUUID()}`);
  const rig = await open({ strategy: { configIsImportedFilePath: marker } });
  try {
    expect(await codeOf(rig.open().create(volumeOf("a"), call))).toBe("unavailable");
    expect(existsSync(join(rig.fake.folder, "saved.json"))).toBe(false);
    writeFileSync(marker, "");
    await rig.open().create(volumeOf("a"), call);
    rmSync(marker);
    expect(await codeOf(rig.open().delete("a", call))).toBe("unavailable");
    expect(existsSync(at(rig, `subsystems/${nqnOf(rig, "a")}`))).toBe(true);
  } finally {
    rmSync(marker, { force: true });
  }
});

test("a lost subsystem is made again, as it was, when its volume is requested again", async () => {
  const rig = await open();
  await rig.open().create(volumeOf("a"), call);
  const nqn = nqnOf(rig, "a");
  const folder = `subsystems/${nqn}`;
  const uuid = text(rig, `${folder}/namespaces/1/device_uuid`);
  expect(uuid).toBe(uuidOf(rig.fake.find("tank/k/v/a")?.guid ?? ""));
  rmSync(at(rig, folder), { recursive: true });
  for (const port of [1, 2]) rmSync(at(rig, `ports/${port}/subsystems/${nqn}`));
  await rig.open().create(volumeOf("a"), call);
  expect(text(rig, `${folder}/namespaces/1/device_uuid`)).toBe(uuid);
  expect(text(rig, `${folder}/namespaces/1/enable`)).toBe("1");
  expect(existsSync(at(rig, `ports/2/subsystems/${nqn}`))).toBe(true);
});

test("a namespace has a UUID of its own", () => {
  expect(uuidOf("1")).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(uuidOf("1")).toBe(uuidOf("1"));
  expect(uuidOf("1")).not.toBe(uuidOf("2"));
});

test("links of ports that the file no longer names are removed with the subsystem", async () => {
  const other = await zfsRig({ driver: "zfs-generic-nvmeof", strategy: { ports: ["2"] } });
  rigs.push(other);
  mkdirSync(at(other, "ports/3/subsystems"), { recursive: true });
  await other.open().create(volumeOf("a"), call);
  const link = at(other, `ports/3/subsystems/${nqnOf(other, "a")}`);
  writeFileSync(link, "");
  await other.open().delete("a", call);
  expect(await other.remains()).toEqual([]);
  expect(existsSync(link)).toBe(false);
});

test("the name of a subsystem is recorded before it is made", async () => {
  const rig = await open();
  for (let step = 1; ; step++) {
    const { driver, dead } = rig.dying(step, "after");
    await driver.create(volumeOf("a"), call).catch(() => {});
    if (rig.fake.targets().length > 0) expect([step, `${base}:${note(rig, "a")}`]).toEqual([step, nqnOf(rig, "a")]);
    await rig.open().delete("a", call);
    expect([step, await rig.remains()]).toEqual([step, []]);
    if (!dead()) break;
  }
});

test.each(["a b", "x; rm", "$(id)"])(
  "a volume whose recorded name no target can have is not touched: %j",
  async name => {
    const rig = await open();
    await rig.open().create(volumeOf("a"), call);
    rig.fake.with(pools => {
      const thing = pools.find("tank/k/v/a");
      if (thing) thing.own["democratic-csi:nvmeof_assets_name"] = { value: name, source: "local" };
    });
    expect(await codeOf(rig.open().delete("a", call))).not.toBe("ok");
    expect(rig.fake.find("tank/k/v/a")).toBeDefined();
  },
);
