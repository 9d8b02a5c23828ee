import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readObjects } from "../../../lib/config/cluster.ts";
import { nfsClients, nfsdForShells } from "../../fakes/zfs/nfsd.ts";
import { type FakeZfs, fakeZfs } from "../../fakes/zfs/pools.ts";
import { listOf, pv, volumes } from "./volumes-run.ts";

// A storage host whose cluster is gone, and the PersistentVolumes that a new one gets.

const folder = mkdtempSync(join(tmpdir(), "csimux-adopt-all-"));
const path = process.env["PATH"];
let fake: FakeZfs;
let main = "";

const marks = { "democratic-csi:managed_resource": "true", "democratic-csi:provision_success": "true" };

/** A finished volume with this tenure, which is one of the cluster "east" where nothing else is said. */
function volume(name: string, tenure: object | undefined, size = "64M"): void {
  const whole = { holder: name, shape: "mount", retain: true, instance: "east", ...tenure };
  const all = { ...marks, refquota: size, sharenfs: "rw", ...(tenure && { "csimux:tenure": JSON.stringify(whole) }) };
  const options = Object.entries(all).flatMap(([key, value]) => ["-o", `${key}=${value}`]);
  fake.zfs("create", "-p", name.slice(0, name.lastIndexOf("/")));
  fake.zfs("create", ...options, name);
}

const connection = (root: string, driver = "zfs-generic-nfs"): string =>
  JSON.stringify({
    driver,
    instance_id: "east",
    zfs: { datasetParentName: `${root}/v`, detachedSnapshotsDatasetParentName: `${root}/s` },
    nfs: {
      shareHost: "nas",
      shareStrategy: "setDatasetProperties",
      shareStrategySetDatasetProperties: { properties: { sharenfs: "rw" } },
    },
  });

/** A main file with these connections. */
function mainWith(name: string, files: Readonly<Record<string, string>>): string {
  mkdirSync(join(folder, name), { recursive: true });
  for (const [each, text] of Object.entries(files)) writeFileSync(join(folder, name, `${each}.yaml`), text);
  const file = join(folder, `${name}.yaml`);
  const groups = "groups: { both: { members: [nas, other], policy: ordered } }";
  writeFileSync(
    file,
    `driver: proxy\nproxy:\n  configFolder: ${folder}/${name}\n  ${"other" in files ? groups : ""}\n`,
  );
  return file;
}

beforeAll(async () => {
  fake = await fakeZfs();
  process.env["PATH"] = `${fake.bin}:${path}`;
  main = mainWith("two", { nas: connection("tank/k"), other: connection("tank/o"), hand: "driver: node-manual" });
  volume("tank/k/v/pvc-a", { claim: "shop/db" });
  volume("tank/k/v/pvc-b", { claim: "web/data-db-0", shape: "mount:xfs" });
  volume("tank/k/v/pvc-c", undefined);
  volume("tank/k/v/pvc-d", { claim: "shop/given", released: "4711" });
  volume("tank/k/v/pvc-e", { claim: "shop/given" });
  volume("tank/k/v/pvc-f", { claim: "shop/west", instance: "west" });
  volume("tank/k/v/pvc-g", { claim: "shop/twice" });
  volume("tank/o/v/pvc-h", { claim: "shop/twice" });
  volume("tank/k/v/pvc-i", { claim: "shop/one" });
  volume("tank/o/v/pvc-i", { claim: "shop/other" });
  volume("tank/k/v/pvc-j", { claim: "shop/open" });
  volume("tank/k/v/pvc-k", { claim: "shop/there" });
  volume("tank/k/v/pvc-l", { claim: "shop/claim-pvc-x" });
  volume("tank/k/v/pvc-m", { claim: "shop/bound" });
  volume("tank/k/v/pvc-n", { claim: "shop/disk\n- name: x" });
  volume("tank/k/v/Odd", { claim: "shop/odd", shape: "block" });
  const place = fake.place("tank/k/v/pvc-j");
  nfsdForShells(fake.folder, fake.bin, place);
  nfsClients(fake.folder, [{ id: 7, open: [place] }]);
});
afterAll(async () => {
  process.env["PATH"] = path;
  await fake.close();
  rmSync(folder, { recursive: true, force: true });
});

const cluster = listOf(pv("pvc-x", "v:elsewhere/pvc-x"), pv("pvc-m", "v:nas/pvc-m"), {
  kind: "PersistentVolumeClaim",
  metadata: { namespace: "shop", name: "there" },
});
const all = (given = cluster, file = main) => volumes(given, "adopt", "--all", "--config", file, "--pvs", "-");

test("each volume of a lost cluster gets a PersistentVolume for the claim that it records; what is doubtful is named", async () => {
  fake.commands();
  const before = JSON.stringify(fake.with(pools => pools.all()));
  const { code, out, err } = await all();
  expect([code, err]).toEqual([1, ""]);
  const objects = readObjects("adopt", out);
  const shown = objects.map(({ kind, metadata }) => [kind, (metadata as { name: string }).name]);
  expect(shown).toEqual([
    ["PersistentVolume", expect.stringMatching(/^csimux-[0-9a-f]{16}$/)],
    ["PersistentVolumeClaim", "odd"],
    ["PersistentVolume", "pvc-a"],
    ["PersistentVolumeClaim", "db"],
    ["PersistentVolume", "pvc-b"],
    ["PersistentVolumeClaim", "data-db-0"],
    ["PersistentVolume", "pvc-e"],
    ["PersistentVolumeClaim", "given"],
  ]);
  expect(objects[0]).toMatchObject({ spec: { volumeMode: "Block", csi: { volumeHandle: "v:nas/Odd" } } });
  expect(objects[1]).toMatchObject({ spec: { volumeMode: "Block" } });
  expect(objects[4]).toMatchObject({
    spec: {
      capacity: { storage: String(64 << 20) },
      accessModes: ["ReadWriteMany", "ReadWriteOnce"],
      persistentVolumeReclaimPolicy: "Retain",
      claimRef: { namespace: "web", name: "data-db-0" },
      csi: {
        volumeHandle: "v:nas/pvc-b",
        fsType: "xfs",
        volumeAttributes: { share: fake.place("tank/k/v/pvc-b"), provisioner_driver_instance_id: "east" },
      },
    },
  });
  expect(objects[5]).toMatchObject({
    metadata: { namespace: "web", name: "data-db-0" },
    spec: { accessModes: ["ReadWriteMany"], volumeName: "pvc-b", storageClassName: "" },
  });
  for (const line of [
    "4 volumes of csimux.storage for the claims that they were made for. Nothing has been changed.",
    "First create the namespaces (shop, web), then this file with kubectl create -f, then the workloads.",
    "- v:nas/pvc-c: it records no claim; csimux volumes adopt nas pvc-c --claim <namespace>/<name>",
    "- v:nas/pvc-d: claim shop/given gave it up; a class with adopt: byClaim gives it back, or csimux volumes adopt nas pvc-d --claim shop/given --mark",
    '- v:nas/pvc-f: it was made for instance_id "west", perhaps by another cluster, for claim shop/west',
    "- v:nas/pvc-g: claim shop/twice had v:other/pvc-h, too; choose: csimux volumes adopt nas pvc-g --claim shop/twice",
    "- v:other/pvc-h: claim shop/twice had v:nas/pvc-g, too; choose: csimux volumes adopt other pvc-h --claim shop/twice",
    "- v:nas/pvc-i: another member of its group has a volume of its name; compare: csimux volumes adopt nas pvc-i --claim shop/one",
    "- v:other/pvc-i: another member of its group has a volume of its name; compare: csimux volumes adopt other pvc-i --claim shop/other",
    "- v:nas/pvc-k: its claim shop/there exists in this cluster already; delete that, so that it gets no new volume",
    "- v:nas/pvc-l: its claim shop/claim-pvc-x has the PersistentVolume pvc-x in this cluster",
    "- v:nas/pvc-n: it records no claim; csimux volumes adopt nas pvc-n --claim <namespace>/<name>",
    "- connection hand: the driver node-manual cannot list its volumes",
  ])
    expect(out.split("\n")).toContain(`# ${line}`);
  expect(out).toMatch(/^# - v:nas\/pvc-j: for claim shop\/open, but .*NFS clients hold files in .*\/pvc-j open/m);
  expect(out).not.toContain("pvc-m");
  expect(JSON.stringify(fake.with(pools => pools.all()))).toBe(before);
  expect(fake.commands().filter(line => !/^(zfs (get|list|version)|zpool list)/.test(line))).toEqual([]);
});

test("an empty new cluster is enough; a volume that no client uses any more is printed", async () => {
  nfsClients(fake.folder, []);
  const single = mainWith("single", { nas: connection("tank/o") });
  const { code, out } = await all(listOf(), single);
  expect(code).toBe(0);
  expect(readObjects("adopt", out).map(({ kind }) => kind)).toHaveLength(4);
  expect((await all()).out).toContain("name: open");
  const claims = listOf({ kind: "PersistentVolumeClaim", metadata: { namespace: "shop", name: "twice" } });
  expect((await all(claims, single)).out).toContain("its claim shop/twice exists in this cluster already");
});

test("nothing is printed while a connection cannot be listed: a claim may have its newer volume there", async () => {
  const { code, out, err } = await all(
    cluster,
    mainWith("broken", { nas: connection("tank/k"), other: connection("lost/x") }),
  );
  expect([code, out]).toEqual([2, ""]);
  expect(err).toMatch(/^csimux: nothing is printed, because a claim may have a newer volume on .*: other \(/);
});

test.each([
  [["adopt", "--all"], "--pvs is missing"],
  [["adopt", "--all", "--pvs", "-"], "- has no PersistentVolumes"],
  [["adopt"], "name a connection and an object of it, or give --all"],
  [["adopt", "nas"], "name a connection and an object of it, or give --all"],
  [["adopt", "nas", "pvc-a", "--all", "--pvs", "-"], "--all takes neither a connection nor --claim nor --mark"],
  [["adopt", "--all", "--mark", "--pvs", "-"], "--all takes neither a connection nor --claim nor --mark"],
])("%p is a wrong use", async (words, text) => {
  const { code, out, err } = await volumes(listOf({ kind: "Node" }), ...words, "--config", main);
  expect([code, out]).toEqual([2, ""]);
  expect(err).toContain(text);
});
