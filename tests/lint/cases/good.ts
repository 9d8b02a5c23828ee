import type { Example } from "../../../lib/lint/rules/rule.ts";
import { rules } from "../../../lib/lint/rules.ts";

const http = `httpConnection:
  protocol: https
  host: nas.example.org
  port: 443
  apiKey: 1-abcdef
`;

const ssh = `sshConnection:
  host: nas.example.org
  port: 22
  username: csi
  password: correct horse
  hostKey: nas.example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqfzv2hQH0KfTzJrJYgXcXhH0kqPcF0mKpGv5dYXQ1R
`;

const zfsNfs = `zfs:
  datasetParentName: tank/csi/vols
  detachedSnapshotsDatasetParentName: tank/csi/snaps
  datasetEnableQuotas: true
  datasetEnableReservation: false
  datasetPermissionsMode: "0777"
  datasetPermissionsUser: 0
  datasetPermissionsGroup: 0
`;

const zfsBlock = `zfs:
  datasetParentName: tank/csi/vols
  detachedSnapshotsDatasetParentName: tank/csi/snaps
  zvolCompression: lz4
  zvolBlocksize: 16K
`;

const freenasNfs = `nfs:
  shareHost: nas.example.org
  shareAlldirs: false
  shareAllowedHosts: []
  shareAllowedNetworks: [10.0.0.0/8]
  shareMaprootUser: root
  shareMaprootGroup: root
`;

const freenasSmb = `smb:
  shareHost: nas.example.org
  nameTemplate: "{{ parameters.[csi.storage.k8s.io/pvc/namespace] }}-{{ parameters.[csi.storage.k8s.io/pvc/name] }}"
  namePrefix: csi-
  shareGuestOk: false
  shareBrowsable: true
`;

const freenasIscsi = `iscsi:
  targetPortal: nas.example.org:3260
  targetPortals: []
  namePrefix: csi-
  targetGroups:
    - targetGroupPortalGroup: 1
      targetGroupInitiatorGroup: 2
      targetGroupAuthType: None
  extentInsecureTpc: true
  extentDisablePhysicalBlocksize: true
  extentBlocksize: 512
  extentRpm: SSD
`;

const freenasNvme = `nvmeof:
  transports: ["tcp://nas.example.org:4420"]
  ports: [1]
`;

const sharing = (key: string): string => `  shareStrategy: setDatasetProperties
  shareStrategySetDatasetProperties:
    properties:
      ${key}: "on"
`;

const targetCli = `iscsi:
  shareStrategy: targetCli
  shareStrategyTargetCli:
    sudoEnabled: true
    basename: iqn.2003-01.org.example.nas
    tpg:
      attributes:
        authentication: 0
        generate_node_acls: 1
        cache_dynamic_acls: 1
        demo_mode_write_protect: 0
  targetPortal: nas.example.org
`;

const nvmetCli = `nvmeof:
  transports: ["tcp://nas.example.org:4420"]
  shareStrategy: nvmetCli
  shareStrategyNvmetCli:
    basename: nqn.2003-01.org.example.nas
    ports: ["1"]
    subsystem:
      attributes: { allow_any_host: 1 }
`;

const section = (name: string): string => `${name}:
  shareHost: nas.example.org
  shareBasePath: /export/k8s
  controllerBasePath: /storage
  dirPermissionsMode: "0777"
  dirPermissionsUser: 1000
  dirPermissionsGroup: users
`;

const synology = `driver: synology-iscsi
httpConnection:
  protocol: https
  host: dsm.example.org
  port: 5001
  username: csi
  password: correct horse
  session: csimux
  serialize: true
synology:
  volume: /volume1
iscsi:
  targetPortal: dsm.example.org
  baseiqn: "iqn.2000-01.com.synology:csi."
  lunTemplate:
    type: BLUN
  targetTemplate:
    auth_type: 0
    max_sessions: 0
`;

/** One connection of every driver, by file name. */
export const connections: Readonly<Record<string, string>> = {
  "freenas-nfs": `driver: freenas-nfs\n${http}${ssh}${zfsNfs}${freenasNfs}`,
  "freenas-smb": `driver: freenas-smb\n${http}${ssh}${zfsNfs}${freenasSmb}`,
  "freenas-iscsi": `driver: freenas-iscsi\n${http}${ssh}${zfsBlock}${freenasIscsi}`,
  "freenas-nvmeof": `driver: freenas-nvmeof\n${http}${ssh}${zfsBlock}${freenasNvme}`,
  "freenas-api-nfs": `driver: freenas-api-nfs\n${http}${zfsNfs}${freenasNfs}`,
  "freenas-api-smb": `driver: freenas-api-smb\n${http}${zfsNfs}${freenasSmb}`,
  "freenas-api-iscsi": `driver: freenas-api-iscsi\n${http}${zfsBlock}${freenasIscsi}`,
  "freenas-api-nvmeof": `driver: freenas-api-nvmeof\n${http}${zfsBlock}${freenasNvme}`,
  "truenas-nfs": `driver: truenas-nfs\n${http}${ssh}${zfsNfs}${freenasNfs}`,
  "truenas-api-iscsi": `driver: truenas-api-iscsi\n${http}${zfsBlock}${freenasIscsi}`,
  "zfs-generic-nfs": `driver: zfs-generic-nfs\n${ssh}${zfsNfs}nfs:\n  shareHost: nas.example.org\n${sharing("sharenfs")}`,
  "zfs-generic-smb": `driver: zfs-generic-smb\n${ssh}${zfsNfs}smb:\n  shareHost: nas.example.org\n${sharing("sharesmb")}`,
  "zfs-generic-iscsi": `driver: zfs-generic-iscsi\n${ssh}${zfsBlock}${targetCli}`,
  "zfs-generic-nvmeof": `driver: zfs-generic-nvmeof\n${ssh}${zfsBlock}${nvmetCli}`,
  "zfs-local-dataset": `driver: zfs-local-dataset\nzfs:\n  datasetParentName: tank/csi/vols\n  detachedSnapshotsDatasetParentName: tank/csi/snaps\n  datasetEnableQuotas: true\n`,
  "zfs-local-zvol": `driver: zfs-local-zvol\n${zfsBlock}`,
  "zfs-local-ephemeral-inline": "driver: zfs-local-ephemeral-inline\nzfs:\n  datasetParentName: tank/inline\n",
  "nfs-client": `driver: nfs-client\n${section("nfs")}`,
  "smb-client": `driver: smb-client\n${section("smb")}`,
  "lustre-client": `driver: lustre-client\n${section("lustre")}`,
  "local-hostpath":
    "driver: local-hostpath\nlocal-hostpath:\n  shareBasePath: /var/lib/csi\n  controllerBasePath: /var/lib/csi\n",
  "synology-iscsi": synology,
  "node-manual": "driver: node-manual\n",
  objectivefs:
    'driver: objectivefs\nobjectivefs:\n  pool: csi-volumes\n  env:\n    OBJECTSTORE: "minio://"\n    ENDPOINT: https://s3.example.org\n    SECRET_KEY: correct horse\n    OBJECTIVEFS_PASSPHRASE: correct horse\n',
};

const topology = `  nodeTopology:
    type: zone
    prefix: storage.example.org
    fromRegexp:
      - topologyKey: zone
        source: nodeName
        regex: '.*\\.(z[0-9]+)\\.example\\.org'
        template: 'zone-{match:1}'
        default: zone-z0
      - topologyKey: rack
        source: nodeName
        template: r1
`;

/** A main file that uses most of its keys. */
export const main = `driver: proxy
proxy:
  configFolder: /connections
  cacheTimeoutMinutes: 60
${topology}  nodeId:
    parts:
      nodeName: true
      iqn: true
    iqnPrefix:
      - shortName: "1"
        prefix: "iqn.2005-03.org.open-iscsi:"
  groups:
    fast:
      selector: "tier=fast, site in (a, b)"
      policy: spread
    both:
      members: [one, two]
  legacyConnection: one
  listing: complete
node:
  mount:
    mount_flags: noatime
`;

const placed = (host: string, zone: string): string => `driver: nfs-client
nfs:
  shareHost: ${host}
  shareBasePath: /export/k8s
  controllerBasePath: /storage
instance_id: ${host}
proxy:
  perDriver:
    labels:
      tier: fast
      site: a
    topology:
      - requirements:
          zone: ${zone}
        extra:
          custom.example/tier: gold
`;

/** A deployment: the main file, two connections, classes, a Secret, and Helm values. */
export const deployment: Example = {
  "proxy.yaml": main,
  "one.yaml": placed("nas1.example.org", "zone-z1"),
  "two.yaml": placed("nas2.example.org", "zone-z2"),
  "class.yaml": `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: fast
provisioner: org.example.csimux
allowVolumeExpansion: true
reclaimPolicy: Delete
volumeBindingMode: WaitForFirstConsumer
parameters:
  connection: both
  csi.storage.k8s.io/fstype: nfs
allowedTopologies:
  - matchLabelExpressions:
      - key: storage.example.org/zone
        values: [zone-z1, zone-z2]
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata:
  name: copies
driver: org.example.csimux
deletionPolicy: Delete
parameters:
  driver: filecopy
`,
  "values.yaml": `csiDriver:
  name: org.example.csimux
driver:
  existingConfigSecret: csimux
controller:
  externalProvisioner:
    extraArgs:
      - --feature-gates=Topology=true
  driver:
    extraVolumeMounts:
      - name: connections
        mountPath: /connections
`,
};

/** A Secret with a connection in a literal block, one in JSON-like flow text, and one in base64. */
export const secret = `apiVersion: v1
kind: Secret
metadata:
  name: connections
stringData:
  one.yaml: |
    driver: nfs-client
    nfs:
      shareHost: nas1.example.org
      shareBasePath: /export/k8s
      controllerBasePath: /storage
  two.yaml: '{driver: nfs-client, nfs: {shareHost: nas2.example.org, shareBasePath: /x, controllerBasePath: /y}}'
  readme.txt: not a connection
data:
  three.yaml: ${Buffer.from(placed("nas3.example.org", "zone-z1")).toString("base64")}
`;

const base = connections["nfs-client"] ?? "";

/** Odd forms of one connection that mean the same. */
const forms: Readonly<Record<string, string>> = {
  crlf: base.replaceAll("\n", "\r\n"),
  mark: `\uFEFF${base}`,
  comments: `# a comment\n${base}# another\n`,
  flow: "{driver: nfs-client, nfs: {shareHost: a, shareBasePath: /a, controllerBasePath: /b}}\n",
  json: '{"driver": "nfs-client", "nfs": {"shareHost": "a", "shareBasePath": "/a", "controllerBasePath": "/b"}}\n',
  anchors: base.replace("/export/k8s", "&f /export/k8s").replace("/storage", "*f"),
  merge: "driver: nfs-client\nnfs: {<<: {shareHost: a, shareBasePath: /a}, controllerBasePath: /b}\n",
  document: `---\n${base}...\n`,
  empty: `${base}instance_id:\n`,
  octal: base.replace('"0777"', "0777"),
  digits: base.replace('"0777"', "777"),
  variable: base.replace("nas.example.org", "${env:NAS_HOST}"),
  file: `${base}  snapshots: { kopia: { config_tokenFile: /run/secrets/kopia } }\n`,
  suppressed: `${base}colour: red # csimux-ignore unknown-key\n`,
};

/** Everything that must pass without a finding (but for drivers that cannot be opened yet), by name. */
export const good: ReadonlyMap<string, Example> = new Map<string, Example>([
  ...Object.entries(connections).map(([name, text]) => [name, { [`${name}.yaml`]: text }] as const),
  ...Object.entries(forms).map(([name, text]) => [`form ${name}`, { "c1.yaml": text }] as const),
  ...rules.map(({ id, good: files }) => [`rule ${id}`, files] as const),
  ["main", { "proxy.yaml": main.replace(/ {2}groups:[\s\S]*?listing/, "  listing") }],
  ["deployment", deployment],
  ["secret", { "secret.yaml": secret }],
]);
