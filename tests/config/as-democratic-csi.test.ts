import { describe, expect, test } from "bun:test";
import { connection, gist, nfs } from "./reading.ts";

/** Values of users' files, which democratic-csi reads in a way of its own. */

const zvols = (zfs: string) => `driver: zfs-local-zvol
zfs:
  datasetParentName: tank/v
  detachedSnapshotsDatasetParentName: tank/s
  ${zfs}
`;

const targets = (group: string) => `driver: freenas-api-iscsi
httpConnection: { protocol: https, host: nas.example.org, apiKey: 1-abc }
zfs: { datasetParentName: tank/v, detachedSnapshotsDatasetParentName: tank/s }
iscsi:
  targetPortal: nas.example.org
  targetGroups:
    - targetGroupPortalGroup: 1
      ${group}
`;

const datasets = (zfs: string) => `driver: zfs-local-dataset
zfs:
  datasetParentName: tank/v
  detachedSnapshotsDatasetParentName: tank/s
  ${zfs}
`;

describe("permission bits without quotes", () => {
  test.each([
    // Helm makes decimal numbers of octal ones: 0777, 0770, 0755, 0700.
    ["511", "0777"],
    ["504", "0770"],
    ["493", "0755"],
    ["448", "0700"],
  ])("of a folder are the number itself from 0700 to 0777: %s", (written, mode) => {
    const { config, diagnostics } = connection(`${nfs}  dirPermissionsMode: ${written}\n`);
    expect(config?.settings).toMatchObject({ nfs: { dirPermissionsMode: mode } });
    expect(gist(diagnostics)).toEqual(["retyped-value@6:23 nfs.dirPermissionsMode"]);
    expect(diagnostics[0]?.message).toBe(`${written} without quotes is read as ${mode}; Helm makes 511 of 0777`);
  });

  test.each([
    ["777", "777"],
    ["447", "447"],
    ["1777", "1777"],
    ["'511'", "511"],
    ["0755", "0755"],
  ])("of a folder are octal digits else: %s", (written, mode) => {
    const { config, diagnostics } = connection(`${nfs}  dirPermissionsMode: ${written}\n`);
    expect(config?.settings).toMatchObject({ nfs: { dirPermissionsMode: mode } });
    expect(diagnostics).toEqual([]);
  });

  test("of a dataset are octal digits, which chmod(1) gets, and small ones are said", () => {
    const { config, diagnostics } = connection(datasets("datasetPermissionsMode: 511"));
    expect(config?.settings).toMatchObject({ zfs: { datasetPermissionsMode: "0511" } });
    expect(diagnostics.map(({ message }) => message)).toEqual([
      "511 without quotes is read as 0511; Helm makes 511 of 0777",
    ]);
    expect(connection(datasets("datasetPermissionsMode: 493")).config).toBeUndefined();
  });
});

test("the number 0 gives a folder no owner: chown to root fails on an export that squashes root", () => {
  const { config, diagnostics } = connection(`${nfs}  dirPermissionsUser: 0\n  dirPermissionsGroup: 0\n`);
  expect(diagnostics).toEqual([]);
  expect(config?.settings).toHaveProperty("nfs.shareHost");
  expect(config?.settings).not.toHaveProperty("nfs.dirPermissionsUser");
  expect(config?.settings).not.toHaveProperty("nfs.dirPermissionsGroup");
  const named = connection(`${nfs}  dirPermissionsUser: root\n  dirPermissionsGroup: "0"\n`);
  expect(named.config?.settings).toMatchObject({ nfs: { dirPermissionsUser: "root", dirPermissionsGroup: "0" } });
});

test("true and false set no property of a zvol", () => {
  const { config, diagnostics } = connection(zvols("zvolDedup: false\n  zvolCompression: true"));
  expect(config?.settings).toMatchObject({ zfs: { zvolDedup: "", zvolCompression: "" } });
  expect(gist(diagnostics)).toEqual(["retyped-value@5:14 zfs.zvolDedup", "retyped-value@6:20 zfs.zvolCompression"]);
  expect(connection(zvols("zvolDedup: 'false'")).config).toBeUndefined();
});

test.each([
  ["none", "None"],
  ["chap", "CHAP"],
  ["Chap mutual", "CHAP Mutual"],
])("the kind of login may have any capitals: %s", (written, word) => {
  const { config, diagnostics } = connection(targets(`targetGroupAuthType: ${written}\n      targetGroupAuthGroup: 1`));
  expect(config?.settings).toMatchObject({ iscsi: { targetGroups: [{ targetGroupAuthType: word }] } });
  expect(gist(diagnostics)).toEqual(["retyped-value@8:28 iscsi.targetGroups[0].targetGroupAuthType"]);
});

test.each(["None", "NONE", "CHAP_MUTUAL"])("the usual words for it cause no warning: %s", word => {
  expect(connection(targets(`targetGroupAuthType: ${word}\n      targetGroupAuthGroup: 1`)).diagnostics).toEqual([]);
});

describe("empty text", () => {
  test.each([
    [targets('targetGroupAuthGroup: ""'), "targetGroupAuthGroup"],
    [zvols('zvolEnableReservation: ""'), "zvolEnableReservation"],
    [datasets('datasetPermissionsMode: ""'), "datasetPermissionsMode"],
    [datasets('datasetPermissionsUser: ""'), "datasetPermissionsUser"],
    [`${nfs}  dirPermissionsGroup: ""\n`, "dirPermissionsGroup"],
  ])("counts as absent: %#", (text, key) => {
    const { config, diagnostics } = connection(text);
    expect(config).toBeDefined();
    expect(diagnostics).toEqual([]);
    expect(JSON.stringify(config?.settings)).not.toContain(`"${key}":""`);
  });

  test("is not a group of initiators, because any initiator might log in without one", () => {
    expect(gist(connection(targets('targetGroupInitiatorGroup: ""')).diagnostics)).toEqual([
      "invalid-value@8:34 iscsi.targetGroups[0].targetGroupInitiatorGroup",
    ]);
  });

  test("of a variable is a mistake", () => {
    const text = zvols('zvolEnableReservation: "${env:EMPTY}"');
    const world = { env: () => "", file: () => undefined };
    expect(connection(text, undefined, world).config).toBeUndefined();
  });
});

test("UNKNOWN, which democratic-csi's own lists contain, is not an access mode", () => {
  const { config, diagnostics } = connection(`${nfs}csi: { access_modes: [UNKNOWN, SINGLE_NODE_WRITER] }\n`);
  expect(config?.accessModes).toEqual(["single-node-writer"]);
  expect(diagnostics).toEqual([]);
});
