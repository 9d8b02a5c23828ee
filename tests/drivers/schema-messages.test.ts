import { expect, test } from "bun:test";
import type { Path } from "../../lib/schema/finding.ts";
import { byDriver, changed, read } from "./example-files.ts";

/** driver, path, value, the key that is found to be wrong, and what is said of it. */
type Row = readonly [driver: string, path: Path, value: unknown, where: string, words: string];

const rows: readonly Row[] = [
  ["zfs-generic-nfs", ["zfs", "datasetParentName"], "/mnt/tank/k8s", "zfs.datasetParentName", 'remove "/mnt/"'],
  ["zfs-generic-nfs", ["zfs", "datasetParentName"], "/tank/k8s", "zfs.datasetParentName", 'remove the first "/"'],
  [
    "zfs-generic-nfs",
    ["zfs", "datasetProperties", "a:b"],
    "{{#each x}}{{/each}}",
    'zfs.datasetProperties."a:b"',
    "does not support",
  ],
  ["freenas-nfs", ["zfs", "datasetPermissionsUser"], "root", "zfs.datasetPermissionsUser", "number of a user"],
  ["freenas-nfs", ["httpConnection", "apiKey"], undefined, "httpConnection.apiKey", '"username" and "password"'],
  ["zfs-generic-nfs", ["sshConnection", "privateKey"], "/root/.ssh/id_rsa", "sshConnection.privateKey", "-----BEGIN"],
  // What every version of TrueNAS or DSM refuses.
  ["freenas-api-iscsi", ["zfs", "zvolCompression"], "gzip-6", "zfs.zvolCompression", "only gzip, gzip-1 and gzip-9"],
  [
    "freenas-api-nfs",
    ["zfs", "datasetProperties"],
    { compression: "gzip-2" },
    "zfs.datasetProperties.compression",
    "gzip-9",
  ],
  ["freenas-api-nfs", ["zfs", "datasetPermissionsMode"], "1777", "zfs.datasetPermissionsMode", "0000 to 0777"],
  [
    "freenas-api-nfs",
    ["nfs", "shareAllowedNetworks"],
    ["300.0.0.0/8"],
    "nfs.shareAllowedNetworks[0]",
    "network such as",
  ],
  ["freenas-api-iscsi", ["iscsi", "extentAvailThreshold"], -1, "iscsi.extentAvailThreshold", ""],
  ["freenas-api-iscsi", ["iscsi", "extentRpm"], "7000", "iscsi.extentRpm", ""],
  ["freenas-api-nvmeof", ["nvmeof", "hosts"], [{ hostnqn: "nqn.node1" }], "nvmeof.hosts[0].hostnqn", "11 to 223"],
  [
    "freenas-api-nvmeof",
    ["nvmeof", "hosts"],
    [{ hostnqn: "nqn.2014-08.org:a", dhchapCtrlKey: "DHHC-1:00:a:" }],
    "nvmeof.hosts[0].dhchapKey",
    "the other direction needs a key of the host, too",
  ],
  ["synology-iscsi", ["iscsi", "baseiqn"], "synology", "iscsi.baseiqn", ""],
  ["synology-iscsi", ["iscsi", "baseiqn"], `iqn.2000-01.com.synology:${"b".repeat(190)}`, "iscsi.baseiqn", ""],
  ["synology-iscsi", ["iscsi", "namePrefix"], "k8s_", "iscsi.namePrefix", "must consist of letters, digits"],
  ["synology-iscsi", ["iscsi", "namePrefix"], "a_b", "iscsi.namePrefix", "must consist of letters, digits"],
];

test.each(rows)("a message says what to do: %s %j = %j", (driver, path, value, where, words) => {
  const [first, ...others] = read(changed(byDriver.get(driver) ?? "", path, value)).diagnostics;
  expect([first?.rule, first?.path, others]).toEqual(["invalid-value", where, []]);
  expect(first?.message).toContain(words);
});
