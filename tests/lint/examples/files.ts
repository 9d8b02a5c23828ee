/** Files by name, small enough to read at a glance. */
export type Example = Readonly<Record<string, string>>;

/** Two examples of one rule. */
export interface RuleExamples {
  /** Breaks the rule. */
  readonly bad: Example;
  /** The same without any problem. */
  readonly good: Example;
}

/** Examples by rule id. */
export type Examples = Readonly<Record<string, RuleExamples>>;

/** A connection of nfs-client; `more` goes below `nfs:`, indented by two. */
export const nfs = (more = "", host = "nas.example.org", folder = "/export/k8s"): string =>
  `driver: nfs-client\nnfs:\n  shareHost: ${host}\n  shareBasePath: ${folder}\n  controllerBasePath: /storage\n${more}`;

/** A connection of local-hostpath. */
export const hostpath =
  "driver: local-hostpath\nlocal-hostpath:\n  shareBasePath: /data\n  controllerBasePath: /data\n";

/** A main file; `more` goes below `proxy:`, indented by two. */
export const main = (more = ""): string => `driver: proxy\nproxy:\n  configFolder: /connections\n${more}`;

/** `proxy.nodeTopology` with one rule that always applies. */
export const zones = `  nodeTopology:
    type: zone
    fromRegexp:
      - topologyKey: zone
        source: env
        envName: ZONE
        default: z1
`;

/** A connection that is reachable from one zone. */
export const inZone = (zone: string, key = "zone"): string =>
  nfs(`proxy:\n  perDriver:\n    topology:\n      - requirements: { ${key}: ${zone} }\n`);

/** A StorageClass; `more` are further top-level lines. */
export const storageClass = (parameters: string, more = ""): string =>
  `apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: { name: fast }\nprovisioner: csimux.storage\nparameters:\n${parameters}${more}`;

/** A VolumeSnapshotClass. */
export const snapshotClass = (parameters: string): string =>
  `apiVersion: snapshot.storage.k8s.io/v1\nkind: VolumeSnapshotClass\nmetadata: { name: snap }\ndriver: csimux.storage\ndeletionPolicy: Delete\nparameters:\n${parameters}`;

/** A PersistentVolume; `provisioner` and `attributes` are volume attributes. */
export const volume = (handle: string, provisioner = "nfs-client", attributes = ""): string =>
  `apiVersion: v1\nkind: PersistentVolume\nmetadata: { name: old }\nspec:\n  csi:\n    driver: csimux.storage\n    volumeHandle: ${handle}\n    volumeAttributes:\n      provisioner_driver: ${provisioner}\n${attributes}`;

/** Helm values; `controller` goes below `controller:`, `more` below `csiDriver:`, `config` says where the main file is. */
export const values = (controller: string, more = "", config = "driver: { existingConfigSecret: config }\n"): string =>
  `csiDriver:\n  name: csimux.storage\n  attachRequired: false\n${more}${config}controller:\n${controller}  driver:\n    image: { registry: r.example/csimux, tag: "0.1.0" }\n    extraVolumeMounts:\n      - { name: connections, mountPath: /connections }\n  extraVolumes:\n    - { name: connections, secret: { secretName: connections } }\nnode:\n  driver:\n    image: { registry: r.example/csimux, tag: "0.1.0" }\n    extraVolumeMounts:\n      - { name: data, mountPath: /data, mountPropagation: Bidirectional }\n  extraVolumes:\n    - { name: data, hostPath: { path: /data } }\n`;

/** A connection to TrueNAS over its API. */
export const truenas = (connection: string): string =>
  `driver: freenas-api-nfs\nhttpConnection:\n${connection}zfs:\n  datasetParentName: tank/k8s/vols\n  detachedSnapshotsDatasetParentName: tank/k8s/snaps\n  datasetEnableQuotas: true\nnfs:\n  shareHost: nas.example.org\n  shareAllowedHosts: []\n`;

/** A connection to TrueNAS with iSCSI. */
export function iscsi(portals: string): string {
  return `driver: freenas-api-iscsi\nhttpConnection:\n  protocol: https\n  host: nas.example.org\n  port: 443\n  username: csi\n  apiKey: 1-abc\nzfs:\n  datasetParentName: tank/k8s/vols\n  detachedSnapshotsDatasetParentName: tank/k8s/snaps\niscsi:\n  targetPortals: ${portals}\n  targetGroups:\n    - { targetGroupPortalGroup: 1, targetGroupInitiatorGroup: 1, targetGroupAuthType: None }\n`;
}

/** A connection to a ZFS host over SSH. */
export function zfs(ssh: string): string {
  return `driver: zfs-generic-nfs\nsshConnection:\n  host: nas.example.org\n  username: root\n  password: secret\n${ssh}zfs:\n  datasetParentName: tank/k8s/vols\n  detachedSnapshotsDatasetParentName: tank/k8s/snaps\n  datasetEnableQuotas: true\nnfs:\n  shareHost: nas.example.org\n  shareStrategy: setDatasetProperties\n  shareStrategySetDatasetProperties:\n    properties: { sharenfs: "on" }\n`;
}

/** A connection to a ZFS host that shares over iSCSI, with CHAP; `authentication` is the attribute of its targets. */
export const lio = (authentication: number): string =>
  `driver: zfs-generic-iscsi\nsshConnection:\n  host: nas.example.org\n  username: root\n  password: secret\n  hostKey: nas.example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqfzv2hQH0KfTzJrJYgXcXhH0kqPcF0mKpGv5dYXQ1R\nzfs:\n  datasetParentName: tank/k8s/vols\n  detachedSnapshotsDatasetParentName: tank/k8s/snaps\niscsi:\n  targetPortal: nas.example.org:3260\n  shareStrategy: targetCli\n  shareStrategyTargetCli:\n    basename: iqn.2024-01.org.example:zfs\n    tpg:\n      attributes: { authentication: ${authentication} }\n      auth: { userid: node, password: put-it-here1 }\n`;

/** A connection of smb-client. */
export const smb =
  "driver: smb-client\nsmb:\n  shareHost: nas.example.org\n  shareBasePath: /k8s\n  controllerBasePath: /storage\n";

export const c1 = (bad: string, good: string): RuleExamples => ({
  bad: { "c1.yaml": bad },
  good: { "c1.yaml": good },
});

export const withClass = (bad: string, good: string): RuleExamples => ({
  bad: { "c1.yaml": nfs(), "class.yaml": bad },
  good: { "c1.yaml": nfs(), "class.yaml": good },
});

export const plain = storageClass("  connection: c1\n");
export const allowed = (key: string, value: string): string =>
  storageClass(
    "  connection: c1\n",
    `allowedTopologies:\n  - matchLabelExpressions:\n      - key: ${key}\n        values: [${value}]\n`,
  );
export const zoneKey = "org.democratic-csi.topology/zone";
export const delayed = "volumeBindingMode: WaitForFirstConsumer\n";
export const login =
  "  csi.storage.k8s.io/node-stage-secret-name: login\n  csi.storage.k8s.io/node-stage-secret-namespace: storage\n";

export const secret = (body: string): string =>
  `apiVersion: v1\nkind: Secret\nmetadata: { name: connections }\n${body}${nfs().replace(/^(?=.)/gm, "    ")}`;

export const csiDriver = (spec: string): string =>
  `apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: { name: csimux.storage }\nspec: ${spec}\n`;
export const controller = (sidecars: string): string =>
  `apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: csimux-controller }\nspec:\n  template:\n    spec:\n      containers:\n        - name: csimux\n          image: registry.example.org/csimux\n          args: [serve, --name=csimux.storage, --mode=controller]\n${sidecars}`;
export const attacher = "        - { name: attacher, image: registry.k8s.io/sig-storage/csi-attacher:v4.12.0 }\n";
export const provisioner = (args: string): string =>
  `        - { name: provisioner, image: registry.k8s.io/sig-storage/csi-provisioner:v6.3.0, args: ["${args}"] }\n`;
export const mounting = (name: string): string =>
  `${controller(`          volumeMounts:\n            - { name: connections, mountPath: /connections }\n${attacher}`)}      volumes:\n        - { name: connections, secret: { secretName: ${name} } }\n`;
export const generating = (files: string): string =>
  `apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nsecretGenerator:\n  - name: connections\n    files: [${files}]\n`;
export const disk = iscsi("[nas.example.org]");

export const zoneRules = (text: string): string => `  nodeTopology:\n    type: zone\n    fromRegexp:\n${text}`;

export const hostKey =
  "  hostKey: nas.example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqfzv2hQH0KfTzJrJYgXcXhH0kqPcF0mKpGv5dYXQ1R\n";
