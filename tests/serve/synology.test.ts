import { afterAll, beforeAll, expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Dsm, startDsm } from "../fakes/dsm/double.ts";
import { codeOf, failureOf, status, untilDone, World } from "./world.ts";

// The executable with two Synology systems behind one driver name.

let one: Dsm;
let two: Dsm;
let world: World;

const file = (dsm: Dsm, template: readonly string[] = []): string =>
  [
    "driver: synology-iscsi",
    "httpConnection:",
    "  protocol: http",
    "  host: 127.0.0.1",
    `  port: ${dsm.port}`,
    "  username: csi",
    "  password: secret-pw",
    "  session: csimux-test",
    "iscsi:",
    "  targetPortal: 10.0.0.51:3260",
    '  baseiqn: "iqn.2000-01.com.synology:csi."',
    "  lunTemplate:",
    "    type: BLUN",
    "    dev_attribs: [{dev_attrib: can_snapshot, enable: 1}]",
    ...template,
    "",
  ].join("\n");

beforeAll(async () => {
  [one, two] = [await startDsm(7), await startDsm(6)];
  world = await World.start("off", [], async ({ connections }) => {
    await writeFile(join(connections, "syno-a.yaml"), file(one));
    await writeFile(join(connections, "syno-b.yaml"), file(two));
    const nfs = ["nfs:", "  shareHost: nas", "  allowedHosts: [10.0.0.0/24]"];
    const smb = ["smb:", "  shareHost: nas", "  users: [csi-nodes]"];
    await writeFile(join(connections, "nfs.yaml"), folders(one, "synology-nfs", nfs));
    await writeFile(join(connections, "smb.yaml"), folders(two, "synology-smb", smb));
  });
}, 120_000);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await Promise.all([one.close(), two.close()]);
});

const folders = (dsm: Dsm, driver: string, section: readonly string[]): string =>
  [`driver: ${driver}`, ...file(dsm).split("\n").slice(1, 8), ...section, ""].join("\n");

const gibibyte = { requiredBytes: 1n << 30n };
const make = async (name: string, connection: string, more = {}) => {
  const { volume } = await world.create(name, connection, { capacityRange: gibibyte, ...more });
  if (!volume) throw new Error("no volume");
  return volume;
};

test("a volume lives: made, snapshot, restored, expanded, listed, measured, deleted, and the system is empty", async () => {
  const volume = await make("pvc-1", "syno-a");
  expect(volume).toMatchObject({ volumeId: "v:syno-a/pvc-1", capacityBytes: 1n << 30n });
  expect(volume.volumeContext).toMatchObject({
    node_attach_driver: "iscsi",
    provisioner_driver: "synology-iscsi",
    portal: "10.0.0.51:3260",
    portals: "",
    interface: "",
    // The LUN's own tag: a session of an earlier volume of this name does not know it.
    iqn: expect.stringMatching(/^iqn\.2000-01\.com\.synology:csi\.pvc-1\.[0-9a-f]{8}$/),
    lun: "1",
  });
  const { snapshot } = await world.controller("createSnapshot", { name: "snap", sourceVolumeId: volume.volumeId });
  const [taken] = one.state.snapshots.values();
  expect(snapshot?.snapshotId).toBe(`s:syno-a//lun/${taken?.lun}/${taken?.uuid}`);
  const source = { type: { case: "snapshot" as const, value: { snapshotId: snapshot?.snapshotId ?? "" } } };
  const restored = await make("pvc-2", "syno-a", { volumeContentSource: source });
  expect(restored.contentSource?.type.value).toMatchObject({ snapshotId: snapshot?.snapshotId });
  const more = { requiredBytes: 3n << 30n };
  expect(
    await world.controller("controllerExpandVolume", { volumeId: volume.volumeId, capacityRange: more }),
  ).toMatchObject({ capacityBytes: 3n << 30n, nodeExpansionRequired: true });
  const { entries } = await world.controller("listVolumes", {});
  expect(entries.map(each => each.volume?.volumeId).sort()).toEqual(["v:syno-a/pvc-1", "v:syno-a/pvc-2"]);
  const { availableCapacity } = await world.controller("getCapacity", { parameters: { connection: "syno-a" } });
  expect(availableCapacity).toBe(2n ** 43n);
  expect(await codeOf(world.controller("deleteVolume", { volumeId: volume.volumeId }))).toBe(status.failedPrecondition);
  await world.controller("deleteSnapshot", { snapshotId: snapshot?.snapshotId ?? "" });
  for (const { volumeId } of [volume, restored]) await world.controller("deleteVolume", { volumeId });
  expect(one.state.remains()).toEqual([]);
});

test.each([
  ["nfs", "nas", "/volume1/pvc-folder"],
  ["smb", "nas", "pvc-folder"],
])("a shared folder over %s lives as a LUN does", async (connection, server, share) => {
  const volume = await make("pvc-folder", connection);
  expect(volume.volumeContext).toMatchObject({ node_attach_driver: connection, server, share });
  const { snapshot } = await world.controller("createSnapshot", { name: "snap", sourceVolumeId: volume.volumeId });
  const source = { type: { case: "snapshot" as const, value: { snapshotId: snapshot?.snapshotId ?? "" } } };
  const restored = await make("pvc-restored", connection, { volumeContentSource: source });
  const more = { requiredBytes: 3n << 30n };
  expect(
    await world.controller("controllerExpandVolume", { volumeId: volume.volumeId, capacityRange: more }),
  ).toMatchObject({ capacityBytes: 3n << 30n, nodeExpansionRequired: false });
  expect(await codeOf(world.controller("deleteVolume", { volumeId: volume.volumeId }))).toBe(status.failedPrecondition);
  await world.controller("deleteSnapshot", { snapshotId: snapshot?.snapshotId ?? "" });
  for (const { volumeId } of [volume, restored]) await world.controller("deleteVolume", { volumeId });
  expect([...one.state.remains(), ...two.state.remains()]).toEqual([]);
});

test("a lost answer of any request of a creation is repaired by the sidecar's repeat", async () => {
  for (const method of [/LUN create/, /Target create/, /map_target/, /LUN set/, /login/])
    for (const when of ["before", "after"] as const) {
      two.faults.loseOnce(method, when);
      const volume = await untilDone(() => make("pvc-lost", "syno-b"));
      expect(volume.volumeContext["lun"]).toBe("1");
      await untilDone(() => world.controller("deleteVolume", { volumeId: volume.volumeId }));
      expect(two.state.remains()).toEqual([]);
    }
  two.faults.loseOnce(/never/, "before");
}, 60_000);

test("neither an error nor the log shows a password", async () => {
  two.answers.set("SYNO.Core.ISCSI.Target create", [18990708]);
  const secrets = { targetTemplate: "{user: node, password: chapsecret12}" };
  const failure = await failureOf(make("pvc-chap", "syno-b", { secrets }));
  expect(failure.code).toBe(status.invalidArgument);
  expect(failure.details).toContain("18990708");
  const log = await world.daemon.log();
  for (const secret of ["chapsecret12", "secret-pw"]) expect(`${failure.details}${log}`).not.toContain(secret);
  expect(two.state.remains()).toEqual([]);
});

/** The operations of one caller on a volume of its own, by kind; each may be repeated. */
const operations = (connection: string, timeoutMs?: number): readonly ((n: number) => Promise<unknown>)[] => [
  n => world.create(`${connection}-made-${n}`, connection, { capacityRange: gibibyte }, timeoutMs),
  n => world.controller("deleteVolume", { volumeId: `v:${connection}/${connection}-gone-${n}` }, timeoutMs),
  n => {
    const capacityRange = { requiredBytes: 2n << 30n };
    return world.controller(
      "controllerExpandVolume",
      { volumeId: `v:${connection}/${connection}-grown-${n}`, capacityRange },
      timeoutMs,
    );
  },
  n => {
    const sourceVolumeId = `v:${connection}/${connection}-kept-${n}`;
    return world.controller("createSnapshot", { name: `${connection}-snap-${n}`, sourceVolumeId }, timeoutMs);
  },
  () => world.controller("getCapacity", { parameters: { connection } }, timeoutMs),
];

test("while one system of two swallows 100 mixed operations the other one does 100, and none is lost once it is back", async () => {
  const each = Array.from({ length: 20 }, (_, n) => n);
  const kinds = ["gone", "grown", "kept"];
  for (const kind of kinds)
    await Promise.all(
      each.flatMap(n => ["syno-a", "syno-b"].map(connection => make(`${connection}-${kind}-${n}`, connection))),
    );
  two.frozen = true;
  const swallowed = operations("syno-b", 4000).flatMap(operation => each.map(n => codeOf(operation(n))));
  await Promise.all(operations("syno-a").flatMap(operation => each.map(n => operation(n))));
  const given = await Promise.all(swallowed);
  expect(given.filter(code => code !== status.deadlineExceeded && code !== status.unavailable)).toEqual([]);
  two.thaw();
  await Promise.all(operations("syno-b").flatMap(operation => each.map(n => untilDone(() => operation(n)))));
  for (const [connection, { state }] of [
    ["syno-a", one],
    ["syno-b", two],
  ] as const) {
    const sizes = [...state.luns.values()]
      .filter(({ dying }) => dying === undefined)
      .map(({ name, size }) => [name, size]);
    const wanted = each.flatMap(n => [
      [`${connection}-made-${n}`, 2 ** 30],
      [`${connection}-grown-${n}`, 2 ** 31],
      [`${connection}-kept-${n}`, 2 ** 30],
    ]);
    expect(sizes.map(String).sort()).toEqual(wanted.map(String).sort());
    expect(state.snapshots.size).toBe(20);
    const { entries } = await world.controller("listSnapshots", {});
    const snapshots = entries
      .flatMap(({ snapshot }) => snapshot?.snapshotId ?? [])
      .filter(id => id.startsWith(`s:${connection}/`));
    for (const snapshotId of snapshots) await untilDone(() => world.controller("deleteSnapshot", { snapshotId }));
    await Promise.all(
      ["made", "grown", "kept"].flatMap(kind =>
        each.map(n =>
          untilDone(() => world.controller("deleteVolume", { volumeId: `v:${connection}/${connection}-${kind}-${n}` })),
        ),
      ),
    );
    expect(state.remains()).toEqual([]);
  }
}, 180_000);
