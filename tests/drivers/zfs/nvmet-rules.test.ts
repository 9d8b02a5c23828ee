import { afterEach, expect, test } from "bun:test";
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
import { tagOf } from "../../../lib/drivers/zfs/targets/names.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { callWith, volumeOf } from "../../contract/rig.ts";
import { type ZfsRig, zfsRig } from "./zfs-rig.ts";

// What the kernel does with subsystems that hosts are connected to, or that somebody else has made.

const call = callWith();
const base = "nqn.2024-01.org.example:storage";
const host = "nqn.2014-08.org.nvmexpress:uuid:node-1";
const rigs: ZfsRig[] = [];
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});

/** A host with the volume "a". */
async function open(): Promise<ZfsRig> {
  const rig = await zfsRig({ driver: "zfs-generic-nvmeof" });
  rigs.push(rig);
  await rig.open().create(volumeOf("a"), call);
  return rig;
}

const nqnOf = (rig: ZfsRig): string => `${base}:a-${tagOf(rig.fake.find("tank/k/v/a")?.guid ?? "")}`;
const at = (rig: ZfsRig, path: string): string => join(rig.fake.folder, "nvmet", path);
const isOpen = (rig: ZfsRig): string => readFileSync(at(rig, `subsystems/${nqnOf(rig)}/attr_allow_any_host`), "utf8");

/** All that stands in the model of the kernel. */
const all = (rig: ZfsRig): readonly string[] => [
  ...(readdirSync(at(rig, ""), { recursive: true }) as string[]).toSorted(),
  isOpen(rig),
];

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
 * A kernel that shows no controllers: who is connected to the subsystem is connected by TCP, to port 4420 (0x1144), beside
 * others, and is cut off when the last link of a port goes (Linux 6.1, drivers/nvme/target/configfs.c, nvmet_port_subsys_drop_link).
 */
function byTcp(rig: ZfsRig, live: boolean): void {
  const others = established("0100007F:1144", "0200007F:9001") + established("0100007F:0CBC", "0200007F:9002");
  const path = join(rig.fake.folder, "tcp");
  writeFileSync(path, others + (live ? established("0100007F:1144", "0300007F:9003") : ""));
  const rm = join(rig.fake.bin, "rm");
  writeFileSync(
    rm,
    `#!/bin/sh
/bin/rm "$@" || exit
case $1 in *'/ports/'*) grep -v 0300007F '${path}' >'${path}.new'; mv '${path}.new' '${path}';; esac
`,
  );
  chmodSync(rm, 0o755);
}

test("a subsystem that a host is connected to is not removed, nor its volume, until the host has left", async () => {
  const rig = await open();
  connected(rig, true);
  const before = all(rig);
  const refused = await rig
    .open()
    .delete("a", call)
    .catch((error: unknown) => error);
  expect(refused).toMatchObject({ code: "failed-precondition", message: expect.stringContaining(host) });
  expect(all(rig)).toEqual(before);
  expect(rig.fake.find("tank/k/v/a")).toBeDefined();
  connected(rig, false);
  await rig.open().delete("a", call);
  expect(await rig.remains()).toEqual([]);
});

/** The note of a subsystem that was closed. */
const noteOf = (rig: ZfsRig): string => join(rig.fake.folder, `csimux-closed-${nqnOf(rig)}`);

/** As if the note were older by so many seconds. */
function aged(rig: ZfsRig, seconds: number): void {
  const [at = "", ...rest] = readFileSync(noteOf(rig), "utf8").split("\n");
  writeFileSync(noteOf(rig), [Number(at) - seconds, ...rest].join("\n"));
}

test("on a kernel that shows no controllers, a subsystem counts as unused if closing it ends no connection", async () => {
  const rig = await open();
  byTcp(rig, true);
  const before = all(rig);
  expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
  expect(all(rig)).toEqual(before);
  // The host that was cut off connects again only after its reconnect delay, and uses the disk all the same.
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
  const rig = await open();
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
  const rig = await open();
  const subsystem = at(rig, `subsystems/${nqnOf(rig)}`);
  mkdirSync(at(rig, `hosts/${host}`), { recursive: true });
  symlinkSync(at(rig, `hosts/${host}`), join(subsystem, "allowed_hosts", host));
  writeFileSync(join(subsystem, "attr_allow_any_host"), "0\n");
  connected(rig, false);
  // A controller that appears as soon as its host may not connect any more.
  const rm = join(rig.fake.bin, "rm");
  const folder = join(rig.fake.folder, "controllers", nqnOf(rig), "ctrl2");
  writeFileSync(rm, `#!/bin/sh\nmkdir '${folder}' && echo ${host} >'${folder}/hostnqn'\nexec /bin/rm "$@"\n`);
  chmodSync(rm, 0o755);
  const before = all(rig);
  expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
  expect(all(rig)).toEqual(before);
  expect(existsSync(join(subsystem, "allowed_hosts", host))).toBe(true);
});

test("a deletion interrupted after any step never destroys a disk whose host could connect meanwhile", async () => {
  const rig = await open();
  for (let step = 1; ; step++) {
    const { driver, dead } = rig.dying(step, "after");
    await driver.delete("a", call).catch(() => {});
    if (rig.fake.find("tank/k/v/a") && existsSync(at(rig, `ports/1/subsystems/${nqnOf(rig)}`))) {
      connected(rig, true);
      expect([step, await codeOf(rig.open().delete("a", call))]).toEqual([step, "failed-precondition"]);
      connected(rig, false);
    }
    await rig.open().delete("a", call);
    expect([step, await rig.remains()]).toEqual([step, []]);
    if (!dead()) break;
    await rig.open().create(volumeOf("a"), call);
  }
});

test("a volume with the name of a deleted one has a subsystem of another name, which old hosts do not reach", async () => {
  const rig = await open();
  const old = nqnOf(rig);
  await rig.open().delete("a", call);
  const volume = await rig.open().create(volumeOf("a"), call);
  expect(volume.context["nqn"]).toBe(nqnOf(rig));
  expect(volume.context["nqn"]).not.toBe(old);
});

test("a subsystem made by hand under the recorded name is neither completed nor removed", async () => {
  const rig = await open();
  rig.fake.with(pools => {
    const own = pools.find("tank/k/v/a")?.own;
    if (!own) throw new Error("gone");
    delete own["democratic-csi:provision_success"];
    delete own["democratic-csi:csi_share_volume_context"];
    own["democratic-csi:nvmeof_assets_name"] = { value: "plain", source: "local" };
  });
  mkdirSync(at(rig, `subsystems/${base}:plain/namespaces`), { recursive: true });
  expect(await codeOf(rig.open().create(volumeOf("a"), call))).not.toBe("ok");
  expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
  expect(readdirSync(at(rig, `subsystems/${base}:plain`))).toEqual(["namespaces"]);
});
