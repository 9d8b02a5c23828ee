import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type FakeZfs, fakeZfs } from "../fakes/zfs/pools.ts";
import { type Sshd, signal, startSshd } from "../io/ssh/sshd.ts";
import { pause } from "../waiting.ts";
import { codeOf, failureOf, mebibytes, status, untilDone, World } from "./world.ts";

// The executable, a real sshd whose sessions find the model of zfs on their PATH, and the password of the account.

const password = "it's $ecret";
let fake: FakeZfs;
let sshd: Sshd;
let world: World;

const file = (more: readonly string[] = []): string =>
  [
    "driver: zfs-generic-nfs",
    "instance_id: cluster-1",
    "sshConnection:",
    "  host: 127.0.0.1",
    `  port: ${sshd.port}`,
    "  username: root",
    `  password: ${JSON.stringify(password)}`,
    `  hostKey: ${sshd.hostKey}`,
    "zfs:",
    "  datasetParentName: tank/k8s/volumes",
    "  detachedSnapshotsDatasetParentName: tank/k8s/snapshots",
    "  datasetEnableQuotas: true",
    '  datasetPermissionsMode: "0770"',
    "  datasetPermissionsUser: 0",
    "  datasetPermissionsGroup: 12345",
    ...more,
    "nfs:",
    "  shareHost: nas.example.org",
    "  shareStrategy: setDatasetProperties",
    "  shareStrategySetDatasetProperties:",
    "    properties:",
    "      sharenfs: rw,no_root_squash",
    "",
  ].join("\n");

beforeAll(async () => {
  fake = await fakeZfs();
  sshd = await startSshd({ password, env: { PATH: `${fake.bin}:/usr/bin:/bin` } });
  world = await World.start("off", ["one"], ({ connections }) => writeFile(join(connections, "nas.yaml"), file()));
}, 120_000);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await sshd.stop();
  await fake.close();
});

const make = async (name: string, more = {}) => {
  const { volume } = await world.create(name, "nas", { capacityRange: mebibytes(64), ...more });
  if (!volume) throw new Error("no volume");
  return volume;
};

test("a volume is made in one round trip, with its owner, mode, quota and share, and by name as democratic-csi makes it", async () => {
  const volume = await make("pvc-1");
  const place = `${fake.folder}/mnt/tank/k8s/volumes/pvc-1`;
  expect(volume.volumeId).toBe("v:nas/pvc-1");
  expect(volume.volumeContext).toMatchObject({
    node_attach_driver: "nfs",
    server: "nas.example.org",
    share: place,
    provisioner_driver: "zfs-generic-nfs",
    provisioner_driver_instance_id: "cluster-1",
  });
  const { mode, gid } = statSync(place);
  expect([mode & 0o777, gid]).toEqual([0o770, 12345]);
  const own = Object.fromEntries(
    Object.entries(fake.find("tank/k8s/volumes/pvc-1")?.own ?? {}).map(([key, { value }]) => [key, value]),
  );
  expect(own).toEqual({
    sharenfs: "rw,no_root_squash",
    refquota: String(64 << 20),
    "democratic-csi:managed_resource": "true",
    "democratic-csi:provision_success": "true",
    "democratic-csi:csi_volume_name": "pvc-1",
    "democratic-csi:volume_context_provisioner_driver": "zfs-generic-nfs",
    "democratic-csi:volume_context_provisioner_instance_id": "cluster-1",
    "democratic-csi:csi_share_volume_context": JSON.stringify({
      node_attach_driver: "nfs",
      server: "nas.example.org",
      share: place,
    }),
  });
  fake.commands();
  await make("pvc-2");
  const verbs = fake.commands().map(line => line.split(" ").slice(0, 2).join(" "));
  // In one script: create, what there is now, which also tells chown and chmod where it is, and that it is complete.
  expect(verbs).toEqual(["zfs create", "zfs get", "zfs set"]);
});

test("the whole life of a volume: content, snapshot, clone, copies, growth, and all of it gone in the end", async () => {
  const volume = await make("life");
  writeFileSync(join(volume.volumeContext["share"] ?? "", "hello"), "from a pod");
  const { snapshot } = await world.controller("createSnapshot", { name: "snap", sourceVolumeId: volume.volumeId });
  const snapshotId = snapshot?.snapshotId ?? "";
  expect(snapshotId).toBe("s:nas/life@snap");
  expect(snapshot).toMatchObject({ readyToUse: true, sizeBytes: BigInt(64 << 20) });
  const detachedOf = { detachedSnapshots: "true" };
  const copy = await world.controller("createSnapshot", {
    name: "copy",
    sourceVolumeId: volume.volumeId,
    parameters: detachedOf,
  });
  expect(copy.snapshot?.snapshotId).toBe("s:nas/life/copy");
  const from = (id: string) => ({ type: { case: "snapshot" as const, value: { snapshotId: id } } });
  const ofVolume = { type: { case: "volume" as const, value: { volumeId: volume.volumeId } } };
  const made = [
    await make("restored", { volumeContentSource: from(snapshotId) }),
    await make("from-copy", { volumeContentSource: from("s:nas/life/copy") }),
    await make("clone", { volumeContentSource: ofVolume }),
    await make("own-copy", {
      volumeContentSource: ofVolume,
      parameters: { connection: "nas", detachedVolumesFromVolumes: "true" },
    }),
    await make("own-restored", {
      volumeContentSource: from(snapshotId),
      parameters: { connection: "nas", detachedVolumesFromSnapshots: "true" },
    }),
  ];
  for (const each of made)
    expect(readFileSync(join(each.volumeContext["share"] ?? "", "hello"), "utf8")).toBe("from a pod");
  expect(fake.find("tank/k8s/volumes/own-copy")?.origin).toBeUndefined();
  expect((await world.controller("listSnapshots", {})).entries.map(each => each.snapshot?.snapshotId)).toEqual([
    "s:nas/life/copy",
    "s:nas/life@snap",
  ]);
  const grown = await world.controller("controllerExpandVolume", {
    volumeId: volume.volumeId,
    capacityRange: mebibytes(128),
  });
  expect(grown.capacityBytes).toBe(BigInt(128 << 20));
  const refused = await failureOf(world.controller("deleteVolume", { volumeId: volume.volumeId }));
  expect(refused.code).toBe(status.failedPrecondition);
  expect(refused.details).toContain("snapshots: snap");
  expect(existsSync(join(volume.volumeContext["share"] ?? "", "hello"))).toBe(true);
  for (const each of made) await world.controller("deleteVolume", { volumeId: each.volumeId });
  for (const id of [snapshotId, "s:nas/life/copy"]) await world.controller("deleteSnapshot", { snapshotId: id });
  for (const id of [volume.volumeId, "v:nas/pvc-1", "v:nas/pvc-2"])
    await world.controller("deleteVolume", { volumeId: id });
  expect(fake.with(pools => pools.all().map(({ name }) => name))).toEqual([
    "tank",
    "tank/k8s",
    "tank/k8s/snapshots",
    "tank/k8s/volumes",
  ]);
});

test("a pool that is not imported is unavailable for everything, and nothing is taken for deleted", async () => {
  const volume = await make("kept");
  fake.with(pools => {
    pools.state.pools["tank"] = { bytes: 2 ** 40, imported: false };
  });
  const answers = await Promise.all([
    codeOf(make("new")),
    codeOf(world.controller("deleteVolume", { volumeId: volume.volumeId })),
    codeOf(world.controller("listVolumes", {})),
    codeOf(world.controller("deleteSnapshot", { snapshotId: "s:nas/kept@x" })),
    codeOf(world.controller("getCapacity", { parameters: { connection: "nas" } })),
  ]);
  expect(answers).toEqual(Array(5).fill(status.unavailable) as never);
  expect((await world.probe()).ready).toBe(true);
  fake.with(pools => {
    pools.state.pools["tank"] = { bytes: 2 ** 40, imported: true };
  });
  await untilDone(() => world.controller("deleteVolume", { volumeId: volume.volumeId }));
});

test("a class can name datasets after claims; a claim that is created again gets another dataset", async () => {
  const parameters = {
    connection: "nas",
    nameTemplate: "{{ parameters.[csi.storage.k8s.io/pvc/namespace] }}-{{ parameters.[csi.storage.k8s.io/pvc/name] }}",
    "csi.storage.k8s.io/pvc/namespace": "shop",
    "csi.storage.k8s.io/pvc/name": "data",
  };
  const ids = await Promise.all(
    ["pvc-1", "pvc-2"].map(async name => {
      const { volumeId, volumeContext } = await make(name, { parameters });
      expect(volumeId).toMatch(/^v:nas\/shop-data-[0-9a-f]{20}$/);
      expect(volumeContext["share"]).toEndWith(`/tank/k8s/volumes/${volumeId.slice("v:nas/".length)}`);
      expect((await make(name, { parameters })).volumeId).toBe(volumeId);
      return volumeId;
    }),
  );
  expect(new Set(ids).size).toBe(2);
  await Promise.all(ids.map(volumeId => world.controller("deleteVolume", { volumeId })));
  expect((await world.controller("listVolumes", {})).entries).toEqual([]);
}, 60_000);

test("30 volumes made at once while 30 others are deleted are just those afterwards", async () => {
  const names = (letter: string) => Array.from({ length: 30 }, (_, n) => `${letter}-${n}`);
  const first = await Promise.all(names("a").map(name => make(name)));
  await Promise.all([
    ...first.map(({ volumeId }) => world.controller("deleteVolume", { volumeId })),
    ...names("b").map(name => make(name)),
  ]);
  const { entries } = await world.controller("listVolumes", {});
  expect(entries.map(({ volume }) => volume?.volumeId).sort()).toEqual(
    names("b")
      .map(name => `v:nas/${name}`)
      .sort(),
  );
  await Promise.all(
    entries.map(({ volume }) => world.controller("deleteVolume", { volumeId: volume?.volumeId ?? "" })),
  );
}, 180_000);

test("connections that are cut under running calls leave volumes that repeats complete", async () => {
  let cuts = 0;
  const cut = setInterval(() => {
    // The programs of the host live on, as those of a real one do when its network fails.
    for (const pid of sshd.sessions()) if (nameOf(pid).startsWith("sshd")) signal(pid, "SIGKILL");
    if (++cuts === 8) clearInterval(cut);
  }, 900);
  const names = Array.from({ length: 12 }, (_, n) => `cut-${n}`);
  const insist = async (name: string): Promise<string> => {
    const end = Date.now() + 90_000;
    for (;;) {
      const made = await make(name).catch((error: { code: number }) => error.code);
      if (typeof made === "object") return made.volumeId;
      expect([status.unavailable, status.aborted, status.deadlineExceeded]).toContain(made as never);
      if (Date.now() > end) throw new Error(`${name} is not made within its time`);
      await pause(100);
    }
  };
  const ids = await Promise.all(names.map(insist)).finally(() => clearInterval(cut));
  // The last cut may have come a moment ago, under a login that the next calls wait for.
  const { entries } = await untilDone(() => world.controller("listVolumes", {}));
  expect(entries.map(({ volume }) => volume?.volumeId).sort()).toEqual([...ids].sort());
  for (const volumeId of ids) await untilDone(() => world.controller("deleteVolume", { volumeId }));
  const below = (name: string): boolean => name.startsWith("tank/k8s/volumes/");
  expect(fake.with(pools => pools.all().filter(({ name }) => below(name)))).toEqual([]);
}, 180_000);

test("no file, argv or environment contains a secret while csimux is connected", async () => {
  const processes = (await readdir("/proc")).filter(name => /^\d+$/.test(name));
  for (const pid of processes)
    for (const part of ["cmdline", "environ"]) {
      const text = await readFile(`/proc/${pid}/${part}`, "utf8").catch(() => "");
      expect([pid, part, text.includes(password)]).toEqual([pid, part, false]);
    }
  expect(await world.daemon.log()).not.toContain(password);
});

const nameOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
  } catch {
    return "";
  }
};
