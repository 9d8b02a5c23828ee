import { at } from "../lint/world.ts";
import { isMapping, type Mapping } from "../schema/mapping.ts";

/** What was taken over from values, so that nothing has to be said. */
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

/** What csimux does without, and why. */
const needless: Readonly<Record<string, string>> = {
  csiProxy: "csimux needs no csi-grpc-proxy",
  enablePSP: "Kubernetes has no PodSecurityPolicy any more",
  "controller.strategy": "the controller is a Deployment of two replicas now",
  "controller.replicaCount": "the controller is a Deployment of two replicas now",
  "controller.driver.image": "the image is that of csimux now",
  "node.driver.image": "the image is that of csimux now",
  "controller.driver.logLevel": "csimux has --log-level",
  "node.driver.logLevel": "csimux has --log-level",
  "controller.driver.lifecycle":
    "csimux mounts the share that holds the volumes itself; for other work write it into controller.yaml",
  "controller.driver.extraVolumeMounts":
    "csimux mounts the share that holds the volumes itself; other mounts belong into controller.yaml",
  "controller.extraVolumes":
    "csimux mounts the share that holds the volumes itself; other volumes belong into controller.yaml",
  "controller.driver.securityContext": "controller.yaml has what csimux needs",
  "node.driver.iscsiDirHostPath": "csimux uses the host's open-iscsi through /host",
  "node.driver.nvmeDirHostPath": "csimux reads the host's /etc/nvme through /host",
  "node.driver.nvmeDirMountEnabled": "csimux reads the host's /etc/nvme through /host",
  "node.driver.localtimeHostPath": "csimux writes times in UTC",
  "node.cleanup": "csimux takes its sockets away itself",
  "node.driverRegistrar": "csimux registers itself",
  "controller.externalAttacher": "its settings are those of controller.yaml",
  "controller.externalProvisioner": "its settings are those of controller.yaml",
  "controller.externalResizer": "its settings are those of controller.yaml",
  "controller.externalSnapshotter": "its settings are those of controller.yaml",
  extraCaCerts:
    "mount the certificates and set NODE_EXTRA_CA_CERTS in controller.yaml; connections over https are refused until then",
};

/** What else the values set, in words; each key once, with what to do. */
export function leftOver(values: Mapping): readonly string[] {
  const said: string[] = [];
  walk(values, "", said);
  return said;
}

/** These have keys of their own that are looked at one by one. */
const sections = /^(?:driver|controller|node|controller\.driver|node\.driver|controller\.external\w+)$/;

function walk(value: Mapping, above: string, said: string[]): void {
  for (const [key, inner] of Object.entries(value)) {
    const path = above === "" ? key : `${above}.${key}`;
    if (carried.includes(path) || isNothing(inner)) continue;
    if (sections.test(path) && isMapping(inner)) walk(inner, path, said);
    else said.push(`${path}: ${wordsFor(path)}`);
  }
}

function wordsFor(path: string): string {
  const known = Object.entries(needless).find(([key]) => path === key || path.startsWith(`${key}.`));
  if (known) return `not taken over: ${known[1]}`;
  const file = path.startsWith("node.") ? "node.yaml" : path.startsWith("controller.") ? "controller.yaml" : undefined;
  return file === undefined ? "not taken over" : `not taken over: if it is still wanted, write it into ${file}`;
}

const isNothing = (value: unknown): boolean =>
  value === null ||
  value === undefined ||
  value === "" ||
  (Array.isArray(value) && value.length === 0) ||
  (isMapping(value) && Object.values(value).every(isNothing));

/** The folder of kubelet that the values name. */
export const kubeletOf = (values: Mapping): string =>
  String(at(values, "node", "kubeletHostPath") ?? "/var/lib/kubelet");
