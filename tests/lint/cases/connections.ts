const http = `httpConnection:
  protocol: https
  host: nas.example.org
  port: 443
  username: k8s
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

const dsm = `httpConnection:
  protocol: https
  host: dsm.example.org
  port: 5001
  username: csi
  password: correct horse
  session: csimux
  serialize: true
synology:
  volume: /volume1
`;

const synology = `driver: synology-iscsi
${dsm}iscsi:
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
  "synology-nfs": `driver: synology-nfs\n${dsm}nfs:\n  shareHost: dsm.example.org\n  allowedHosts: [10.0.0.0/24]\n`,
  "synology-smb": `driver: synology-smb\n${dsm}smb:\n  shareHost: dsm.example.org\n  users: [csi-nodes]\n`,
  "node-manual": "driver: node-manual\n",
  objectivefs:
    'driver: objectivefs\nobjectivefs:\n  pool: csi-volumes\n  env:\n    OBJECTSTORE: "minio://"\n    ENDPOINT: https://s3.example.org\n    SECRET_KEY: correct horse\n    OBJECTIVEFS_PASSPHRASE: correct horse\n',
};
