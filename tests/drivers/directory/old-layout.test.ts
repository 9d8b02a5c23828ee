import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { below } from "../../../scripts/check/below.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import {
  callWith,
  findVolume,
  getVolume,
  gib,
  snapshotIds,
  snapshotsOf,
  volumeIds,
  volumeOf,
} from "../../contract/rig.ts";
import { leftOn, openOn, temporaryFolder } from "./directory-rig.ts";

const call = callWith();
const volume = "pvc-01234567-89ab-cdef-0123-456789abcdef";
const snapshot = `${volume}-snapshot-fedcba98-7654-3210-fedc-ba9876543210`;
const query = `snapshot_driver=filecopy&snapshot_id=${snapshot}`;

let base = "";
beforeEach(async () => {
  base = await temporaryFolder();
  await mkdir(`${base}/v/${volume}/sub`, { recursive: true });
  await writeFile(`${base}/v/${volume}/content`, "old");
  await mkdir(`${base}/s/${snapshot}`, { recursive: true });
  await writeFile(`${base}/s/${snapshot}/content`, "older");
});
afterEach(() => rm(base, { recursive: true, force: true }));

test("a volume of democratic-csi is found, listed with unknown size, and used in its place", async () => {
  const driver = openOn(base, { instanceId: "i1" });
  const found = await getVolume(driver, volume);
  expect(found).toEqual({
    id: volume,
    bytes: 0n,
    source: undefined,
    context: {
      node_attach_driver: "hostpath",
      provisioner_driver: "local-hostpath",
      provisioner_driver_instance_id: "i1",
      path: `${base}/v/${volume}`,
    },
  });
  expect(await findVolume(driver, volume)).toEqual(found);
  expect(await volumeIds(driver)).toEqual([volume]);
});

test("a create of its name adopts it and records the size", async () => {
  const made = await openOn(base).create(volumeOf(volume), call);
  expect(made).toMatchObject({ id: volume, bytes: gib });
  expect(await readFile(`${base}/v/${volume}/content`, "utf8")).toBe("old");
  expect((await getVolume(openOn(base), volume)).bytes).toBe(gib);
  expect(await codeOf(openOn(base).create(volumeOf(volume, 2n * gib), call))).toBe("already-exists");
});

test("a create of its name with a source is refused, because its source is unknown", async () => {
  const spec = volumeOf(volume, gib, { kind: "snapshot", id: query });
  expect(await codeOf(openOn(base).create(spec, call))).toBe("already-exists");
});

test("it can be expanded, and then has a size", async () => {
  const driver = openOn(base);
  expect(await driver.expand?.expand(volume, { required: gib, limit: undefined }, call)).toEqual({
    bytes: gib,
    onNode: false,
  });
  expect((await getVolume(driver, volume)).bytes).toBe(gib);
  expect((await driver.create(volumeOf(volume), call)).bytes).toBe(gib);
});

test("a snapshot of democratic-csi is found under all forms of its id", async () => {
  const driver = openOn(base);
  for (const id of [snapshot, query]) {
    expect(await snapshotsOf(driver).get(id, call)).toMatchObject({ id, volumeId: volume, bytes: 0n, ready: true });
  }
  expect(await snapshotIds(driver)).toEqual([snapshot]);
  expect(await snapshotIds(driver, volume)).toEqual([snapshot]);
  expect(await snapshotIds(driver, "other")).toEqual([]);
});

test("it can be restored, and both forms of its id are the same source", async () => {
  const driver = openOn(base);
  const spec = (id: string) => volumeOf("restored", gib, { kind: "snapshot", id });
  const made = await driver.create(spec(query), call);
  expect(await readFile(`${base}/v/restored/content`, "utf8")).toBe("older");
  expect(await driver.create(spec(snapshot), call)).toEqual(made);
});

test("a new snapshot is never stored in an old folder, whatever its name", async () => {
  const driver = openOn(base);
  const made = await snapshotsOf(driver).create(snapshot, volume, {}, call);
  expect(await readFile(`${base}/s/${snapshot}/content`, "utf8")).toBe("older");
  await snapshotsOf(driver).delete(made.id, call);
  expect(await readFile(`${base}/s/${snapshot}/content`, "utf8")).toBe("older");
});

test("both can be deleted, and nothing remains", async () => {
  const driver = openOn(base);
  await driver.delete(volume, call);
  await snapshotsOf(driver).delete(query, call);
  expect(await leftOn(base)).toEqual([]);
});

test("a snapshot with two dots in its name is listed and deleted", async () => {
  const odd = `${volume}-nightly..1`;
  await mkdir(`${base}/s/${odd}`);
  const driver = openOn(base);
  expect((await snapshotIds(driver)).toSorted()).toEqual([odd, snapshot].toSorted());
  await snapshotsOf(driver).delete(`snapshot_driver=filecopy&snapshot_id=${odd}`, call);
  expect(below(`${base}/s`)).not.toContain(odd);
});

test("foreign files and folders are not listed and cannot be named", async () => {
  await mkdir(`${base}/v/.hidden`);
  await mkdir(`${base}/v/lost+found`);
  await writeFile(`${base}/v/file`, "");
  await mkdir(`${base}/s/nodash`);
  await writeFile(`${base}/s/a-file`, "");
  const driver = openOn(base);
  expect(await volumeIds(driver)).toEqual([volume]);
  expect(await snapshotIds(driver)).toEqual([snapshot]);
  await driver.delete("lost+found", call);
  await snapshotsOf(driver).delete("nodash", call);
  expect(below(`${base}/v`)).toContain("lost+found");
  expect(below(`${base}/s`)).toContain("nodash");
});

test.each([
  ["nfs-client", "nfs", { server: "nas", share: "/export/k8s/v/a" }],
  ["smb-client", "smb", { server: "nas", share: "export/k8s/v/a" }],
  ["lustre-client", "lustre", { server: "nas", share: "/export/k8s/v/a" }],
] as const)("the volume context of %s is that of democratic-csi", async (kind, protocol, keys) => {
  const settings = { shareHost: "nas", shareBasePath: "/export/k8s/", requireMount: false };
  const driver = openOn(base, { kind, settings });
  const made = await driver.create(volumeOf("a"), call);
  expect(made.context).toEqual({ node_attach_driver: protocol, provisioner_driver: kind, ...keys });
});
