import { at } from "../lint/lint-input.ts";
import { isMapping, type Mapping } from "../schema/mapping.ts";

/** Values that are carried over and need no message. */
const carried: readonly string[] = [
  "csiDriver",
  "storageClasses",
  "volumeSnapshotClasses",
  "driver.config",
  "driver.existingConfigSecret",
  "nameOverride",
  "fullnameOverride",
  "node.kubeletHostPath",
  "controller.enabled",
  "controller.externalAttacher.enabled",
  "controller.externalProvisioner.enabled",
  "controller.externalResizer.enabled",
  "controller.externalSnapshotter.enabled",
];

/** Values that csimux does not need, and why. */
const needless: Readonly<Record<string, string>> = {
  csiProxy: "csimux does not need csi-grpc-proxy",
  enablePSP: "Kubernetes no longer has PodSecurityPolicy",
  "controller.strategy": "the controller is now a Deployment of two replicas",
  "controller.replicaCount": "the controller is now a Deployment of two replicas",
  "controller.driver.image": "the image is now csimux's",
  "node.driver.image": "the image is now csimux's",
  "controller.driver.logLevel": "csimux has --log-level",
  "node.driver.logLevel": "csimux has --log-level",
  "controller.driver.lifecycle":
    "csimux itself mounts the share of the volumes; for other purposes add it to controller.yaml",
  "controller.driver.extraVolumeMounts":
    "csimux itself mounts the share of the volumes; add other mounts to controller.yaml",
  "controller.extraVolumes": "csimux itself mounts the share of the volumes; add other volumes to controller.yaml",
  "controller.driver.securityContext": "controller.yaml has what csimux needs",
  "node.driver.iscsiDirHostPath": "csimux uses the host's open-iscsi through /host",
  "node.driver.nvmeDirHostPath": "csimux reads the host's /etc/nvme through /host",
  "node.driver.nvmeDirMountEnabled": "csimux reads the host's /etc/nvme through /host",
  "node.driver.localtimeHostPath": "csimux writes times in UTC",
  "node.cleanup": "csimux removes its sockets itself",
  "node.driverRegistrar": "csimux registers itself",
  "controller.externalAttacher": "controller.yaml has its settings",
  "controller.externalProvisioner": "controller.yaml has its settings",
  "controller.externalResizer": "controller.yaml has its settings",
  "controller.externalSnapshotter": "controller.yaml has its settings",
  extraCaCerts:
    "mount the certificates and set NODE_EXTRA_CA_CERTS in controller.yaml; connections over https are refused until then",
};

/** The other values, in words; each key once, with what to do. */
export function leftOver(values: Mapping): readonly string[] {
  const lines: string[] = [];
  walk(values, "", lines);
  return lines;
}

/** Sections whose keys are checked one by one. */
const sections = /^(?:driver|controller|node|controller\.driver|node\.driver|controller\.external\w+)$/;

function walk(value: Mapping, above: string, lines: string[]): void {
  for (const [key, inner] of Object.entries(value)) {
    const path = above === "" ? key : `${above}.${key}`;
    if (carried.includes(path) || isNothing(inner)) continue;
    if (sections.test(path) && isMapping(inner)) walk(inner, path, lines);
    else lines.push(`${path}: ${wordsFor(path)}`);
  }
}

function wordsFor(path: string): string {
  const known = Object.entries(needless).find(([key]) => path === key || path.startsWith(`${key}.`));
  if (known) return `not carried over: ${known[1]}`;
  const file = path.startsWith("node.") ? "node.yaml" : path.startsWith("controller.") ? "controller.yaml" : undefined;
  return file === undefined ? "not carried over" : `not carried over: if you still need it, add it to ${file}`;
}

const isNothing = (value: unknown): boolean =>
  value === null ||
  value === undefined ||
  value === "" ||
  (Array.isArray(value) && value.length === 0) ||
  (isMapping(value) && Object.values(value).every(isNothing));

/** The kubelet folder set in the values. */
export const kubeletOf = (values: Mapping): string =>
  String(at(values, "node", "kubeletHostPath") ?? "/var/lib/kubelet");
