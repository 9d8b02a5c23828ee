import type { Example } from "../examples/files.ts";

import { connections } from "./connections.ts";

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
  addressesByTopology:
    - requirements: { rack: r1 }
      addresses: { nas1.example.org: 10.1.0.5 }
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
provisioner: csimux.storage
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
driver: csimux.storage
deletionPolicy: Delete
parameters:
  driver: filecopy
`,
  "values.yaml": `csiDriver:
  name: csimux.storage
  attachRequired: false
driver:
  existingConfigSecret: csimux
controller:
  externalProvisioner:
    extraArgs:
      - --feature-gates=Topology=true
  driver:
    image:
      registry: registry.internal/csimux
      tag: "0.1.0"
    extraVolumeMounts:
      - name: connections
        mountPath: /connections
  extraVolumes:
    - name: connections
      secret:
        secretName: csimux-connections
node:
  driver:
    image:
      registry: registry.internal/csimux
      tag: "0.1.0"
`,
  "pv.yaml": `apiVersion: v1
kind: PersistentVolume
metadata:
  name: old
spec:
  csi:
    driver: csimux.storage
    volumeHandle: v:one/pvc-1
    volumeAttributes:
      provisioner_driver: nfs-client
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
  "file of a key that is required": (connections["freenas-api-nfs"] ?? "").replace(
    "apiKey: 1-abcdef",
    "apiKeyFile: /run/secrets/nas/key",
  ),
  "file of a password": (connections["freenas-nfs"] ?? "").replace("password: correct horse", "passwordFile: /run/key"),
  "file of a private key": (connections["freenas-nfs"] ?? "").replace(
    "password: correct horse",
    "privateKeyFile: /run/key",
  ),
  suppressed: `${base}colour: red # csimux-ignore unknown-key\n`,
};

/** Everything that must pass without a finding (except drivers that cannot be opened yet), by name. */
export const good: ReadonlyMap<string, Example> = new Map<string, Example>([
  ...Object.entries(connections).map(([name, text]) => [name, { [`${name}.yaml`]: text }] as const),
  ...Object.entries(forms).map(([name, text]) => [`form ${name}`, { "c1.yaml": text }] as const),
  ["main", { "proxy.yaml": main.replace(/ {2}groups:[\s\S]*?listing/, "  listing") }],
  ["deployment", deployment],
  ["secret", { "secret.yaml": secret }],
]);
