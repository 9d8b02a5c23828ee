import { hostPath, iscsiadmVariable } from "../core/host-path.ts";
import { isMapping, type Mapping } from "../core/mapping.ts";
import { textAt } from "../lint/lint-input.ts";

/** Values that are carried over and need no message. */
const carried: readonly string[] = [
  ...["csiDriver", "storageClasses", "volumeSnapshotClasses", "driver.config", "driver.existingConfigSecret"],
  ...["nameOverride", "fullnameOverride", "node.kubeletHostPath", "controller.enabled"],
  ...["controller.externalAttacher.enabled", "controller.externalProvisioner.enabled"],
  ...["controller.externalResizer.enabled", "controller.externalSnapshotter.enabled"],
];

const sidecars = ["Attacher", "Provisioner", "Resizer", "Snapshotter"].map(name => `controller.external${name}`);

/** Why csimux does not need some values, and these values. */
const needless: readonly (readonly [why: string, ...keys: readonly string[]])[] = [
  ["csimux does not need csi-grpc-proxy", "csiProxy"],
  ["Kubernetes no longer has PodSecurityPolicy", "enablePSP"],
  ["the controller is now a Deployment of two replicas", "controller.strategy", "controller.replicaCount"],
  ["csimux always runs in its pods", "controller.driver.enabled", "node.driver.enabled"],
  ["the image is now csimux's", "controller.driver.image", "node.driver.image"],
  ["csimux has --log-level", "controller.driver.logLevel", "node.driver.logLevel"],
  [
    "csimux itself mounts the share of the volumes; for other purposes add it to controller.yaml",
    "controller.driver.lifecycle",
  ],
  [
    "csimux itself mounts the share of the volumes; add other mounts to controller.yaml",
    "controller.driver.extraVolumeMounts",
  ],
  ["csimux itself mounts the share of the volumes; add other volumes to controller.yaml", "controller.extraVolumes"],
  ["controller.yaml has what csimux needs", "controller.driver.securityContext"],
  ["csimux finds the host's daemons through /host/proc", "node.hostPID"],
  ["csimux runs iscsiadm where iscsid runs, and uses its files there", "node.driver.iscsiDirHostPath"],
  ["node.yaml tolerates everything", "node.tolerations"],
  [
    "Kubernetes pulls an image with a tag once on each node",
    ...["controller.driver.imagePullPolicy", "node.driver.imagePullPolicy"],
  ],
  ["node.yaml has what csimux needs", "node.driver.resources"],
  ["controller.yaml has what csimux needs", "controller.driver.resources"],
  [
    "csimux reads the host's /etc/nvme through /host",
    ...["node.driver.nvmeDirHostPath", "node.driver.nvmeDirMountEnabled"],
  ],
  ["csimux writes times in UTC", "node.driver.localtimeHostPath"],
  ["csimux removes its sockets itself", "node.cleanup"],
  ["csimux registers itself", "node.driverRegistrar"],
  ["controller.yaml has its settings", ...sidecars],
  [
    "mount the certificates and set NODE_EXTRA_CA_CERTS in controller.yaml; connections over https are refused until then",
    "extraCaCerts",
  ],
];

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
    else if (/\.extraEnv$/.test(path) && Array.isArray(inner))
      for (const each of inner) lines.push(`${path}: ${variable(path, each)}`);
    else lines.push(`${path}: ${wordsFor(path)}`);
  }
}

/** What becomes of a variable of the environment. */
function variable(path: string, each: unknown): string {
  const name = textAt(each, "name") ?? "a variable";
  const value = textAt(each, "value") ?? "";
  const use = iscsiadmVariable(name, value);
  if (use === undefined) return `${name}: ${wordsFor(path)}`;
  return use === "elsewhere"
    ? `${name}=${value}: csimux looks for iscsiadm only in ${hostPath}, so make it available in one of these folders`
    : `${name}: not carried over: csimux runs iscsiadm where iscsid runs, also on Talos`;
}

function wordsFor(path: string): string {
  const known = needless.find(([, ...keys]) => keys.some(key => path === key || path.startsWith(`${key}.`)));
  if (known) return `not carried over: ${known[0]}`;
  const file = path.startsWith("node.") ? "node.yaml" : path.startsWith("controller.") ? "controller.yaml" : undefined;
  return file === undefined ? "not carried over" : `not carried over: if you still need it, add it to ${file}`;
}

const isNothing = (value: unknown): boolean =>
  value === null ||
  value === undefined ||
  value === "" ||
  (Array.isArray(value) && value.length === 0) ||
  (isMapping(value) && Object.values(value).every(isNothing));
