import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tagOf, uuidOf } from "../../../../lib/drivers/zfs/targets/names.ts";
import { below } from "../../../../scripts/check/below.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, getVolume, gib, volumeOf } from "../../../contract/rig.ts";
import { changed } from "../../../fakes/configfs.ts";
import { type ZfsOptions, type ZfsRig, zfsRig } from "../zfs-rig.ts";

// Subsystems of the kernel's NVMe target: what the kernel and the saved configuration get, and hosts that are connected.

const call = callWith();
const opened = perTest(zfsRig);
const base = "nqn.2024-01.org.example:storage";
const host = "nqn.2014-08.org.nvmexpress:uuid:node-1";
const open = perTest((more: Partial<ZfsOptions> = {}) => zfsRig({ driver: "zfs-generic-nvmeof", ...more }));

/** A host with the volume "a". */
async function withVolume(): Promise<ZfsRig> {
  const rig = await open();
  await rig.open().create(volumeOf("a"), call);
  return rig;
}

const nqnOf = (rig: ZfsRig, id = "a"): string =>
  `${base}:${id.toLowerCase()}-${tagOf(rig.fake.find(`tank/k/v/${id}`)?.guid ?? "")}`;
const at = (rig: ZfsRig, path: string): string => join(rig.fake.folder, "nvmet", path);
const text = (rig: ZfsRig, path: string): string => readFileSync(at(rig, path), "utf8").trim();
const note = (rig: ZfsRig, id: string) =>
  rig.fake.find(`tank/k/v/${id}`)?.own["democratic-csi:nvmeof_assets_name"]?.value;
const fault = (rig: ZfsRig, name: string) => writeFileSync(join(rig.fake.folder, "nvmet-fault"), name);

const isOpen = (rig: ZfsRig): string => readFileSync(at(rig, `subsystems/${nqnOf(rig)}/attr_allow_any_host`), "utf8");

/** The model of the kernel. */
const all = (rig: ZfsRig): readonly string[] => [...below(at(rig, "")), isOpen(rig)];

/** A controller as Linux 6.11 shows it (drivers/nvme/target/debugfs.c). */
function connected(rig: ZfsRig, on: boolean): void {
  const folder = join(rig.fake.folder, "controllers", nqnOf(rig), "ctrl1");
  mkdirSync(join(folder, ".."), { recursive: true });
  rmSync(folder, { recursive: true, force: true });
  if (!on) return;
  mkdirSync(folder);
  writeFileSync(join(folder, "hostnqn"), `${host}\n`);
}

const established = (local: string, remote: string): string =>
  `   0: ${local} ${remote} 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20 4 30 10 -1\n`;

/**
 * A kernel that shows no controllers: who is connected to the subsystem is connected by TCP, to port 4420 (0x1144), next to
 * others, and is cut off when the last link of a port goes (Linux 6.1, drivers/nvme/target/configfs.c, nvmet_port_subsys_drop_link).
 */
function byTcp(rig: ZfsRig, live: boolean): void {
  const others = established("0100007F:1144", "0200007F:9001") + established("0100007F:0CBC", "0200007F:9002");
  const path = join(rig.fake.folder, "tcp");
  writeFileSync(path, others + (live ? established("0100007F:1144", "0300007F:9003") : ""));
  fault(rig, "cut 0300007F");
}

/** The note of a subsystem that was closed. */
const noteOf = (rig: ZfsRig): string => join(rig.fake.folder, `csimux-closed-${nqnOf(rig)}`);

/** As if the note were older by so many seconds. */
function aged(rig: ZfsRig, seconds: number): void {
  const [at = "", ...rest] = readFileSync(noteOf(rig), "utf8").split("\n");
  writeFileSync(noteOf(rig), [Number(at) - seconds, ...rest].join("\n"));
}

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
  "a subsystem with %s is not reported as made until it is complete and saved",
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

test("nothing is made or removed before the file of the connection says that the host has restored its subsystems", async () => {
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

const savedOf = (
  rig: ZfsRig,
): { subsystems: { nqn: string }[]; ports: { portid: number; subsystems: string[] }[]; hosts: object[] } =>
  JSON.parse(readFileSync(join(rig.fake.folder, "saved.json"), "utf8"));

test("a host that has not restored its subsystems loses none of them by a change, nor a port without subsystems", async () => {
  const rig = await withVolume();
  const theirs = {
    nqn: "nqn.2014-08.org.example:theirs",
    attr: { model: "x" },
    namespaces: [{ nsid: 7 }],
    allowed_hosts: [],
  };
  const port = { portid: 9, addr: { trtype: "rdma" }, subsystems: [theirs.nqn], later: [1] };
  const saved = savedOf(rig);
  const whole = {
    ...saved,
    hosts: [{ nqn: host }],
    subsystems: [theirs, ...saved.subsystems],
    ports: [...saved.ports, port],
  };
  writeFileSync(join(rig.fake.folder, "saved.json"), JSON.stringify(whole, null, 2));
  // As after a start of the host, before nvmet.service.
  for (const each of ["subsystems", "ports/1/subsystems", "ports/2/subsystems"])
    rmSync(at(rig, each), { recursive: true });
  for (const each of ["subsystems", "ports/1/subsystems", "ports/2/subsystems"]) mkdirSync(at(rig, each));
  await rig.open().create(volumeOf("b"), call);
  expect(savedOf(rig).subsystems.map(({ nqn }) => nqn)).toEqual([theirs.nqn, nqnOf(rig), nqnOf(rig, "b")]);
  expect(savedOf(rig).ports.map(({ subsystems }) => subsystems)).toEqual([
    [nqnOf(rig), nqnOf(rig, "b")],
    [nqnOf(rig), nqnOf(rig, "b")],
    [theirs.nqn],
  ]);
  const nqn = nqnOf(rig);
  await rig.open().delete("a", call);
  await rig.open().delete("b", call);
  expect(JSON.stringify(savedOf(rig))).not.toContain(nqn);
  expect(savedOf(rig)).toMatchObject({ hosts: [{ nqn: host }], subsystems: [theirs] });
  expect(savedOf(rig).ports).toContainEqual(port);
});

test("a host that restarts at any moment of a change loses no saved subsystem, and the repeat of the call ends it", async () => {
  const rig = await withVolume();
  const others = [nqnOf(rig)];
  for (const verb of ["create", "delete"] as const)
    for (let last = 1; ; last++) {
      if (verb === "delete") await rig.open().create(volumeOf("b"), call);
      fault(rig, `die ${last}`);
      const code = await codeOf(
        (verb === "create" ? rig.open().create(volumeOf("b"), call) : rig.open().delete("b", call)) as Promise<unknown>,
      );
      fault(rig, "");
      const saved = savedOf(rig).subsystems.map(({ nqn }) => nqn);
      expect([verb, last, saved]).toEqual([verb, last, expect.arrayContaining(others)]);
      for (const each of ["subsystems", "ports/1/subsystems", "ports/2/subsystems"])
        rmSync(at(rig, each), { recursive: true });
      for (const each of ["subsystems", "ports/1/subsystems", "ports/2/subsystems"]) mkdirSync(at(rig, each));
      // The folder of notes is empty after a start.
      rmSync(join(rig.fake.folder, `csimux-closed-${nqnOf(rig, "b")}`), { force: true });
      if (code === "ok") break;
      expect([verb, last, code]).toEqual([verb, last, "unavailable"]);
    }
  expect(savedOf(rig).subsystems.map(({ nqn }) => nqn)).toEqual(others);
});

test("a port that the host does not have is named, and nothing is made", async () => {
  const other = await opened({ driver: "zfs-generic-nvmeof", strategy: { ports: ["1", "7"] } });
  await expect(other.open().create(volumeOf("a"), call)).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("lacks: port 7"),
  });
  expect(other.fake.targets()).toEqual([]);
});

test("a namespace has a UUID of its own", () => {
  expect(uuidOf("1")).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(uuidOf("1")).toBe(uuidOf("1"));
  expect(uuidOf("1")).not.toBe(uuidOf("2"));
});

test("links of ports that the file no longer names are removed with the subsystem", async () => {
  const other = await opened({ driver: "zfs-generic-nvmeof", strategy: { ports: ["2"] } });
  mkdirSync(at(other, "ports/3/subsystems"), { recursive: true });
  await other.open().create(volumeOf("a"), call);
  const link = at(other, `ports/3/subsystems/${nqnOf(other, "a")}`);
  const name = `subsystems/${nqnOf(other, "a")}`;
  changed(other.fake.folder, [["symlink", `nvmet/ports/3/${name}`, `nvmet/${name}`]]);
  await other.open().delete("a", call);
  expect(await other.remains()).toEqual([]);
  expect(existsSync(link)).toBe(false);
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

test("on a kernel that shows no controllers, a subsystem counts as unused if closing it ends no connection", async () => {
  const rig = await withVolume();
  byTcp(rig, true);
  const before = all(rig);
  expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
  expect(all(rig)).toEqual(before);
  // The host that was cut off connects again only after its reconnect delay, but still uses the disk.
  byTcp(rig, false);
  for (const seconds of [0, 60, 50]) {
    aged(rig, seconds);
    expect([seconds, await codeOf(rig.open().delete("a", call))]).toEqual([seconds, "aborted"]);
    expect(all(rig)).toEqual(before);
  }
  expect(rig.fake.find("tank/k/v/a")).toBeDefined();
  aged(rig, 10);
  byTcp(rig, true);
  expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
  expect(all(rig)).toEqual(before);
  aged(rig, 120);
  byTcp(rig, false);
  const note = noteOf(rig);
  await rig.open().delete("a", call);
  expect(await rig.remains()).toEqual([]);
  expect(existsSync(note)).toBe(false);
});

test("a host that an interrupted check has cut off may reconnect, and csimux waits for it", async () => {
  const rig = await withVolume();
  byTcp(rig, true);
  const before = all(rig);
  expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
  // As if the shell and csimux had ended between the two ports.
  rmSync(at(rig, `ports/1/subsystems/${nqnOf(rig)}`));
  writeFileSync(at(rig, `subsystems/${nqnOf(rig)}/attr_allow_any_host`), "0\n");
  byTcp(rig, false);
  aged(rig, 600);
  for (let repeat = 0; repeat < 2; repeat++) {
    expect([repeat, await codeOf(rig.open().delete("a", call))]).toEqual([repeat, "aborted"]);
    expect(all(rig)).toEqual(before);
  }
  expect(rig.fake.find("tank/k/v/a")).toBeDefined();
  aged(rig, 120);
  await rig.open().delete("a", call);
  expect(await rig.remains()).toEqual([]);
});

test("allowed hosts cannot connect while csimux looks for controllers, and can again afterwards", async () => {
  const rig = await withVolume();
  const subsystem = at(rig, `subsystems/${nqnOf(rig)}`);
  mkdirSync(at(rig, `hosts/${host}`), { recursive: true });
  symlinkSync(at(rig, `hosts/${host}`), join(subsystem, "allowed_hosts", host));
  writeFileSync(join(subsystem, "attr_allow_any_host"), "0\n");
  connected(rig, false);
  // A controller that appears as soon as its host may not connect any more.
  fault(rig, `controller ${host}`);
  const before = all(rig);
  expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
  expect(all(rig)).toEqual(before);
  expect(existsSync(join(subsystem, "allowed_hosts", host))).toBe(true);
});
