import { describe, expect, test } from "bun:test";
import type { Path } from "../../lib/schema/finding.ts";
import { byDriver, changed, gist, read } from "./example-files.ts";

/** driver, path, value, and what is found: `rule path` of every diagnostic. */
type Row = readonly [driver: string, path: Path, value: unknown, found: readonly string[]];

const edited = (driver: string, path: Path, value: unknown): string => changed(byDriver.get(driver) ?? "", path, value);

const good: readonly (readonly [driver: string, path: Path, value: unknown])[] = [
  ["zfs-generic-nfs", ["zfs", "datasetParentName"], "pool"],
  ["zfs-generic-nfs", ["zfs", "datasetParentName"], "tank/csi-nfs/snap"],
  ["zfs-generic-nfs", ["zfs", "detachedSnapshotsDatasetParentName"], "other/a.b:c_d-e/"],
  ["zfs-generic-nfs", ["sshConnection"], undefined],
  ["zfs-generic-nfs", ["sshConnection", "host"], "2001:db8::5"],
  ["zfs-generic-nfs", ["zfs", "datasetPermissionsMode"], 770],
  ["zfs-generic-nfs", ["zfs", "datasetPermissionsUser"], 0],
  ["zfs-generic-nfs", ["nfs", "shareStrategySetDatasetProperties"], undefined],
  ["zfs-generic-nfs", ["zfs", "datasetProperties", "a:b"], "{{#if name}}x{{else}}y{{/if}} {{{ parameters.[a/b] }}}"],
  ["zfs-generic-nfs", ["zfs", "datasetProperties", "a:b"], "costs ${env:NOTHING}"],
  ["zfs-generic-iscsi", ["zfs", "zvolBlocksize"], 512],
  ["zfs-generic-iscsi", ["zfs", "zvolBlocksize"], "131072"],
  ["zfs-generic-iscsi", ["zfs", "zvolBlocksize"], "16k"],
  ["zfs-generic-iscsi", ["zfs", "zvolBlocksize"], ""],
  ["zfs-generic-iscsi", ["zfs", "zvolCompression"], "zstd-19"],
  ["zfs-generic-iscsi", ["zfs", "zvolDedup"], "sha256,verify"],
  ["zfs-generic-iscsi", ["iscsi", "targetPortals"], []],
  ["zfs-generic-iscsi", ["iscsi", "targetPortal"], "[2001:db8::5]:3260"],
  ["zfs-generic-iscsi", ["iscsi", "targetPortal"], ""],
  ["zfs-generic-nvmeof", ["nvmeof", "transports", 0], "rdma://10.0.0.1"],
  ["zfs-generic-nvmeof", ["nvmeof", "transports", 0], "tcp://[2001:db8::5]:4420?host-iface=eth0"],
  ["zfs-generic-nvmeof", ["nvmeof", "transports", 0], "fc://[nn-0x203b00a098cbcac6:pn-0x203d00a098cbcac6]"],
  ["freenas-nfs", ["httpConnection", "port"], "443"],
  ["freenas-iscsi", ["iscsi", "targetGroups", 0, "targetGroupAuthType"], ""],
  ["freenas-iscsi", ["iscsi", "extentRpm"], "7200"],
  ["freenas-api-iscsi", ["zfs", "zvolCompression"], "gzip-9"],
  ["freenas-api-nfs", ["zfs", "datasetPermissionsMode"], "0770"],
  ["freenas-api-nfs", ["zfs", "datasetProperties"], { compression: "zstd-19" }],
  ["freenas-api-nfs", ["nfs", "shareAllowedNetworks"], ["10.0.0.5/24", "2001:DB8::1/64", "0.0.0.0/0"]],
  ["freenas-api-nvmeof", ["nvmeof", "hosts"], [{ hostnqn: "nqn.2024-01.org.example:a" }]],
  ["freenas-api-nvmeof", ["nvmeof", "subsystemTemplate"], { pi_enable: true, nested: { x: [1] } }],
  ["synology-iscsi", ["synology", "volume"], "volume12"],
  ["smb-client", ["smb", "shareBasePath"], "/k8s/volumes/"],
  ["objectivefs", ["objectivefs", "env", "ANYTHING"], 3],
];

const bad: readonly Row[] = [
  ["zfs-generic-nfs", ["zfs", "datasetParentName"], "tank//k8s", ["invalid-value zfs.datasetParentName"]],
  ["zfs-generic-nfs", ["zfs", "datasetParentName"], "tank/../k8s", ["invalid-value zfs.datasetParentName"]],
  ["zfs-generic-nfs", ["zfs", "datasetParentName"], "tank@now", ["invalid-value zfs.datasetParentName"]],
  ["zfs-generic-nfs", ["zfs", "datasetParentName"], `tank/${"x".repeat(200)}`, ["invalid-value zfs.datasetParentName"]],
  ...["tank/csi-nfs/volumes", "tank/csi-nfs/volumes/", "tank/csi-nfs/volumes/snaps", "tank/csi-nfs", "tank"].map(
    (parent): Row => [
      "zfs-generic-nfs",
      ["zfs", "detachedSnapshotsDatasetParentName"],
      parent,
      ["invalid-value zfs.detachedSnapshotsDatasetParentName"],
    ],
  ),
  ["zfs-generic-nfs", ["zfs", "datasetPermissionsMode"], "0o999", ["invalid-value zfs.datasetPermissionsMode"]],
  ["zfs-generic-nfs", ["zfs", "datasetProperties", "a:b"], "{{ name", ['invalid-value zfs.datasetProperties."a:b"']],
  ["zfs-generic-nfs", ["zfs", "datasetProperties", "a:b"], "{{#if x}}y", ['invalid-value zfs.datasetProperties."a:b"']],
  ["zfs-generic-nfs", ["zfs", "datasetProperties", "a:b"], ["x"], ['invalid-value zfs.datasetProperties."a:b"']],
  ["zfs-generic-nfs", ["nfs", "shareStrategy"], "setDatasetProps", ["invalid-value nfs.shareStrategy"]],
  ["zfs-generic-nfs", ["nfs", "shareHost"], "nfs://nas", ["invalid-value nfs.shareHost"]],
  ["zfs-generic-nfs", ["sshConnection", "privateKey"], undefined, ["invalid-value sshConnection.privateKey"]],
  ["zfs-generic-nfs", ["sshConnection", "port"], 70000, ["invalid-value sshConnection.port"]],
  ["zfs-generic-nfs", ["sshConnection", "tryKeyboard"], true, ["ignored-key sshConnection.tryKeyboard"]],
  ["zfs-generic-nfs", ["sshConnection", "user"], "x", ["key-given-twice sshConnection.user"]],
  ["zfs-generic-nfs", ["zfs", "zvolBlocksize"], "16K", ["ignored-key zfs.zvolBlocksize"]],
  ["zfs-generic-nfs", ["zfs", "datasetPermissionMode"], "0777", ["key-given-twice zfs.datasetPermissionMode"]],
  ["zfs-generic-iscsi", ["zfs", "zvolBlocksize"], "12K", ["invalid-value zfs.zvolBlocksize"]],
  ["zfs-generic-iscsi", ["zfs", "zvolBlocksize"], "256K", ["invalid-value zfs.zvolBlocksize"]],
  ["zfs-generic-iscsi", ["zfs", "zvolBlocksize"], 16, ["invalid-value zfs.zvolBlocksize"]],
  ["zfs-generic-iscsi", ["zfs", "zvolCompression"], "gzip-10", ["invalid-value zfs.zvolCompression"]],
  ["zfs-generic-iscsi", ["zfs", "zvolDedup"], true, ["retyped-value zfs.zvolDedup"]],
  ["zfs-generic-iscsi", ["zfs", "datasetEnableQuotas"], true, ["ignored-key zfs.datasetEnableQuotas"]],
  ["zfs-generic-iscsi", ["iscsi", "targetPortal"], "iscsi://10.0.0.1", ["invalid-value iscsi.targetPortal"]],
  ["zfs-generic-iscsi", ["iscsi", "targetPortals", 0], "2001:db8::5:3260", ["invalid-value iscsi.targetPortals[0]"]],
  ["zfs-generic-iscsi", ["iscsi", "namePrefix"], "a b", ["invalid-value iscsi.namePrefix"]],
  [
    "zfs-generic-iscsi",
    ["iscsi", "shareStrategyTargetCli", "tpg", "attributes", "authentication"],
    "1\ncd /",
    ["invalid-value iscsi.shareStrategyTargetCli.tpg.attributes.authentication"],
  ],
  [
    "zfs-generic-iscsi",
    ["iscsi", "shareStrategyTargetCli", "tpg", "auth", "password"],
    "pass word",
    ["invalid-value iscsi.shareStrategyTargetCli.tpg.auth.password"],
  ],
  [
    "zfs-generic-nvmeof",
    ["nvmeof", "shareStrategyNvmetCli", "ports"],
    ["1/../2"],
    ["invalid-value nvmeof.shareStrategyNvmetCli.ports"],
  ],
  [
    "zfs-generic-iscsi",
    ["iscsi", "shareStrategyTargetCli", "basename"],
    "storage",
    ["invalid-value iscsi.shareStrategyTargetCli.basename"],
  ],
  [
    "zfs-generic-iscsi",
    ["iscsi", "shareStrategyTargetCli", "tpg", "auth", "password"],
    undefined,
    ["invalid-value iscsi.shareStrategyTargetCli.tpg.auth.password"],
  ],
  [
    "zfs-generic-iscsi",
    ["iscsi", "shareStrategyTargetCli", "tpg", "auth", "mutual_userid"],
    "x",
    ["invalid-value iscsi.shareStrategyTargetCli.tpg.auth.mutual_password"],
  ],
  ["zfs-generic-nvmeof", ["nvmeof", "transports"], [], ["invalid-value nvmeof.transports"]],
  ["zfs-generic-nvmeof", ["nvmeof", "transports", 0], "http://10.0.0.1", ["invalid-value nvmeof.transports[0]"]],
  ["zfs-generic-nvmeof", ["nvmeof", "shareStrategy"], "spdkCli", ["invalid-value nvmeof.shareStrategySpdkCli"]],
  [
    "zfs-generic-nvmeof",
    ["nvmeof", "shareStrategyNvmetCli", "ports"],
    [],
    ["invalid-value nvmeof.shareStrategyNvmetCli.ports"],
  ],
  ["zfs-local-zvol", ["sshConnection"], { host: "a" }, ["ignored-key sshConnection"]],
  ["zfs-local-zvol", ["zfs", "cli"], { paths: { zfs: "/sbin/zfs" } }, ["ignored-key zfs.cli.paths"]],
  ["freenas-nfs", ["sshConnection"], undefined, ["missing-key sshConnection"]],
  ["freenas-nfs", ["httpConnection", "apiVersion"], 3, ["invalid-value httpConnection.apiVersion"]],
  ["freenas-nfs", ["httpConnection", "protocol"], "htps", ["invalid-value httpConnection.protocol"]],
  ["freenas-nfs", ["httpConnection", "host"], "https://nas", ["invalid-value httpConnection.host"]],
  ["freenas-nfs", ["httpConnection", "apikey"], "x", ["key-given-twice httpConnection.apikey"]],
  ["freenas-nfs", ["nfs", "shareAllowedNetworks", 0], "10.0.0.0", ["invalid-value nfs.shareAllowedNetworks[0]"]],
  ["freenas-nfs", ["nfs", "shareAllowedNetworks", 0], "10.0.0.0/33", ["invalid-value nfs.shareAllowedNetworks[0]"]],
  ["freenas-api-nfs", ["sshConnection"], { host: "a" }, ["ignored-key sshConnection"]],
  ["freenas-api-nfs", ["zfs", "datasetPermissionsAcls"], ["-m x"], ["invalid-value zfs.datasetPermissionsAcls[0]"]],
  ["freenas-smb", ["smb", "nameSuffix"], "a/b", ["invalid-value smb.nameSuffix"]],
  ["freenas-smb", ["smb", "shareBrowseable"], true, ["key-given-twice smb.shareBrowseable"]],
  ["freenas-iscsi", ["iscsi", "namePrefix"], "a_b", ["invalid-value iscsi.namePrefix"]],
  ["freenas-iscsi", ["iscsi", "targetGroups"], [], ["invalid-value iscsi.targetGroups"]],
  [
    "freenas-iscsi",
    ["iscsi", "targetGroups", 0, "targetGroupAuthGroup"],
    undefined,
    ["invalid-value iscsi.targetGroups[0].targetGroupAuthGroup"],
  ],
  [
    "freenas-iscsi",
    ["iscsi", "targetGroups", 0, "targetGroupPortalGroup"],
    0,
    ["invalid-value iscsi.targetGroups[0].targetGroupPortalGroup"],
  ],
  ["freenas-iscsi", ["iscsi", "extentBlocksize"], 513, ["invalid-value iscsi.extentBlocksize"]],
  ["freenas-iscsi", ["iscsi", "extentAvailThreshold"], 100, ["invalid-value iscsi.extentAvailThreshold"]],
  ["freenas-iscsi", ["iscsi", "extentRpm"], 7200, ["retyped-value iscsi.extentRpm"]],
  ["freenas-api-nvmeof", ["nvmeof", "transports"], ["fc://nn-0x1:pn-0x2"], ["invalid-value nvmeof.ports"]],
  ["freenas-api-nvmeof", ["nvmeof", "ports", 0], 1.5, ["invalid-value nvmeof.ports[0]"]],
  ["synology-iscsi", ["httpConnection", "password"], "", ["invalid-value httpConnection.password"]],
  ["synology-iscsi", ["synology", "volume"], "/mnt/x", ["invalid-value synology.volume"]],
  ["synology-iscsi", ["iscsi", "baseiqn"], "iqn.24-1.x", ["invalid-value iscsi.baseiqn"]],
  ["synology-iscsi", ["iscsi", "namePrefix"], "p".repeat(160), ["invalid-value iscsi.baseiqn"]],
  ["synology-nfs", ["nfs", "namePrefix"], "much-too-long-", ["invalid-value nfs.namePrefix"]],
  ["synology-nfs", ["nfs", "allowedHosts"], [], ["invalid-value nfs.allowedHosts"]],
  ["synology-nfs", ["nfs", "squash"], "root", ["invalid-value nfs.squash"]],
  ["synology-smb", ["smb", "users"], [], ["invalid-value smb.users"]],
  ["synology-iscsi", ["iscsi", "lunTemplate", "type"], "THICK", ["invalid-value iscsi.lunTemplate.type"]],
  ["synology-iscsi", ["iscsi", "lunTemplate", "type"], "FILE", ["invalid-value iscsi.lunTemplate.dev_attribs[1]"]],
  [
    "synology-iscsi",
    ["iscsi", "lunTemplate", "direct_io_pattern"],
    3,
    ["invalid-value iscsi.lunTemplate.direct_io_pattern"],
  ],
  [
    "synology-iscsi",
    ["iscsi", "lunTemplate", "dev_attribs", 0, "dev_attrib"],
    "can_snapshot",
    ["invalid-value iscsi.lunTemplate.dev_attribs[1].dev_attrib"],
  ],
  [
    "synology-iscsi",
    ["iscsi", "targetTemplate", "mutualUser"],
    "x",
    [
      "renamed-key iscsi.targetTemplate.mutualUser",
      "invalid-value iscsi.targetTemplate.mutual_password",
      "invalid-value iscsi.targetTemplate.user",
    ],
  ],
  ["objectivefs", ["objectivefs", "pool"], "s3://x", ["invalid-value objectivefs.pool"]],
  ["objectivefs", ["objectivefs", "env", "OBJECTSTORE"], undefined, ["invalid-value objectivefs.env.OBJECTSTORE"]],
  ["nfs-client", ["nfs", "controllerBasePath"], "/", ["invalid-value nfs.controllerBasePath"]],
  ["nfs-client", ["nfs", "controllerBasePath"], "///", ["invalid-value nfs.controllerBasePath"]],
  ["nfs-client", ["nfs", "dirPermissionsUser"], 4_294_967_295, ["invalid-value nfs.dirPermissionsUser"]],
  ["nfs-client", ["nfs", "dirPermissionsGroup"], "5000000000", ["invalid-value nfs.dirPermissionsGroup"]],
  ["smb-client", ["smb", "shareBasePath"], "k8s/../x", ["invalid-value smb.shareBasePath"]],
  ["smb-client", ["smb", "shareBasePath"], "\\\\files\\k8s", ["invalid-value smb.shareBasePath"]],
  ["zfs-generic-nfs", ["zfs", "datasetProperties", "Comment"], "x", ["invalid-value zfs.datasetProperties.Comment"]],
  ["zfs-generic-nfs", ["zfs", "detachedSnapshots"], false, ["ignored-key zfs.detachedSnapshots"]],
  ["zfs-generic-nfs", ["nfs", "shareAllowedHosts"], [], ["ignored-key nfs.shareAllowedHosts"]],
  [
    "zfs-generic-iscsi",
    ["iscsi", "shareStrategyTargetCli", "block", "attributes", "emulate tpu"],
    1,
    ['invalid-value iscsi.shareStrategyTargetCli.block.attributes."emulate tpu"'],
  ],
  ["freenas-iscsi", ["iscsi", "shareStrategy"], "targetCli", ["ignored-key iscsi.shareStrategy"]],
  ["objectivefs", ["objectivefs", "env", "A-B"], "x", ["invalid-value objectivefs.env.A-B"]],
  ["objectivefs", ["objectivefs", "env", "ENDPIONT"], "x", []],
  ["node-manual", ["nfs"], { server: "x" }, ["unknown-key nfs"]],
];

describe("a value that the documents allow", () => {
  test.each(good)("%s: %j = %j", (driver, path, value) => {
    const { config, diagnostics } = read(edited(driver, path, value));
    expect(diagnostics.filter(({ severity }) => severity === "error")).toEqual([]);
    expect(config).toBeDefined();
  });
});

describe("a value that would fail later", () => {
  test.each(bad)("%s: %j = %j", (driver, path, value, found) => {
    expect(gist(edited(driver, path, value))).toEqual([...found]);
  });
});

describe("the settings that a driver gets", () => {
  const settings = (driver: string, path: Path, value: unknown): unknown =>
    read(edited(driver, path, value)).config?.settings;

  test("hold datasets without a trailing slash", () => {
    expect(settings("zfs-generic-nfs", ["zfs", "datasetParentName"], "tank/v/")).toMatchObject({
      zfs: { datasetParentName: "tank/v" },
    });
  });

  test.each([
    [16384, "16K"],
    ["16kib", "16K"],
    ["512", "512"],
    ["", "16K"],
    [undefined, "16K"],
    ["128k", "128K"],
  ])("hold block sizes in one spelling: %j", (value, size) => {
    expect(settings("zfs-generic-iscsi", ["zfs", "zvolBlocksize"], value)).toMatchObject({
      zfs: { zvolBlocksize: size },
    });
  });

  test("hold owners as text, 0 included", () => {
    expect(settings("freenas-nfs", ["zfs", "datasetPermissionsUser"], 0)).toMatchObject({
      zfs: { datasetPermissionsUser: "0" },
    });
  });

  test("hold attributes as the text that tools get", () => {
    expect(settings("zfs-generic-iscsi", ["suspended"], true)).toMatchObject({
      iscsi: { shareStrategyTargetCli: { tpg: { attributes: { authentication: "1" } } } },
    });
  });
});

describe("placeholders of published examples", () => {
  test("are warned of, and credentials are not asked for while they stand", () => {
    const text = changed(
      edited("freenas-nfs", ["httpConnection", "host"], "server address"),
      ["httpConnection", "apiKey"],
      undefined,
    );
    const { config, diagnostics } = read(text);
    expect(diagnostics.map(({ severity, rule, path }) => [severity, rule, path])).toEqual([
      ["warning", "placeholder-value", "httpConnection.host"],
    ]);
    expect(config).toBeDefined();
  });
});

describe("a driver that csimux will not have", () => {
  test.each(["proxy", "containerd-oci-ephemeral-inline", "vhd-ephemeral-inline"])(
    "%s is refused with what to do instead",
    driver => {
      const { diagnostics } = read(`driver: ${driver}\n`);
      expect(diagnostics).toHaveLength(1);
      expect(diagnostics[0]).toMatchObject({ rule: "unknown-driver", path: "driver", line: 1, column: 9 });
      expect(diagnostics[0]?.fix).not.toContain("known drivers");
    },
  );
});
