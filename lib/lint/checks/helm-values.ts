import { type Path, problem, type SchemaFinding } from "../../schema/finding.ts";
import { isMapping } from "../../schema/mapping.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import { factsOf } from "../facts.ts";
import { at, type ConnectionFile, type LintInput, listAt, mappingAt, textAt } from "../lint-input.ts";

const parts = ["controller", "node"] as const;

/** Rules about values of the chart by themselves: images, volumes, where the main file is, names of keys. */
export function* helmValues(value: unknown, { connections }: LintInput): Iterable<SchemaFinding> {
  yield* misspelt(value, [], known);
  yield* mainFile(value);
  for (const part of parts) {
    if (at(value, part, "enabled") === false) continue;
    yield* image(value, part);
    yield* volumes(value, part);
  }
  yield* folders(value, connections);
}

type Known = { readonly [key: string]: Known | true };

const sidecar: Known = { enabled: true, image: true, extraArgs: true, resources: true, logLevel: true, extraEnv: true };
const driver: Known = {
  enabled: true,
  image: true,
  imagePullPolicy: true,
  logLevel: true,
  extraArgs: true,
  extraEnv: true,
  extraVolumeMounts: true,
  resources: true,
  securityContext: true,
  livenessProbe: true,
  lifecycle: true,
  localtimeHostPath: true,
  iscsiDirHostPath: true,
  nvmeDirMountEnabled: true,
};
const pod: Known = {
  enabled: true,
  driver,
  hostNetwork: true,
  hostIPC: true,
  hostPID: true,
  extraVolumes: true,
  extraContainers: true,
  affinity: true,
  nodeSelector: true,
  tolerations: true,
  annotations: true,
  podAnnotations: true,
  labels: true,
  podLabels: true,
  priorityClassName: true,
  serviceAccount: true,
  rbac: true,
};

/** Keys of the chart that people write; others are let pass unless they are nearly one of these. */
const known: Known = {
  csiDriver: {
    name: true,
    enabled: true,
    attachRequired: true,
    podInfoOnMount: true,
    fsGroupPolicy: true,
    storageCapacity: true,
    volumeLifecycleModes: true,
  },
  storageClasses: true,
  volumeSnapshotClasses: true,
  driver: { config: true, existingConfigSecret: true },
  csiProxy: { enabled: true, image: true },
  controller: {
    ...pod,
    strategy: true,
    replicaCount: true,
    externalAttacher: sidecar,
    externalProvisioner: sidecar,
    externalResizer: sidecar,
    externalSnapshotter: sidecar,
    externalHealthMonitorController: sidecar,
  },
  node: { ...pod, kubeletHostPath: true, driverRegistrar: sidecar, cleanup: true },
};

function* misspelt(value: unknown, path: Path, here: Known): Iterable<SchemaFinding> {
  if (!isMapping(value)) return;
  for (const [key, inner] of Object.entries(value)) {
    const next = Object.hasOwn(here, key) ? here[key] : undefined;
    if (next !== undefined && next !== true) yield* misspelt(inner, [...path, key], next);
    const near = next === undefined ? nearest(key, Object.keys(here)) : undefined;
    if (near === undefined || Object.hasOwn(value, near)) continue;
    yield problem(
      "helm-key",
      [...path, key],
      `the chart has no "${key}" here, so this has no effect`,
      meant(near),
      "key",
    );
  }
}

function* mainFile(value: unknown): Iterable<SchemaFinding> {
  const config = mappingAt(value, "driver", "config");
  if (
    textAt(value, "driver", "existingConfigSecret") !== undefined ||
    Object.keys(config).some(key => key !== "driver")
  )
    return;
  yield problem(
    "helm-config",
    ["driver"],
    "the chart gets no main file",
    'add "driver.existingConfigSecret" with the name of a Secret that has the key driver-config-file.yaml',
    "key",
  );
}

function* image(value: unknown, part: (typeof parts)[number]): Iterable<SchemaFinding> {
  const path = [part, "driver", "image"];
  const given = at(value, ...path);
  const where = part === "node" ? "on the nodes" : "as controller";
  if (given === undefined || given === null) {
    const message = `without "${path.join(".")}" the image of democratic-csi runs ${where}`;
    yield problem("helm-image", path, message, `add "${path.join(".")}" with registry and tag of csimux`, "key");
    return;
  }
  const tag = at(given, "tag");
  if (tag !== undefined && typeof tag !== "string")
    yield problem("helm-image", [...path, "tag"], "a tag is text: YAML reads 1.10 as 1.1", "put it in quotes");
}

/** Every mount has its volume, and volumes from Secrets name one. */
function* volumes(value: unknown, part: (typeof parts)[number]): Iterable<SchemaFinding> {
  const there = listAt(value, part, "extraVolumes");
  const names = there.flatMap(each => textAt(each, "name") ?? []);
  for (const [index, mount] of listAt(value, part, "driver", "extraVolumeMounts").entries()) {
    const name = textAt(mount, "name") ?? "";
    if (names.includes(name)) continue;
    const near = nearest(name, names);
    const path = [part, "driver", "extraVolumeMounts", index, "name"];
    const fix = near ? meant(near) : `add it to "${part}.extraVolumes"`;
    yield problem("helm-volume", path, `there is no volume "${name}" in ${part}.extraVolumes`, fix);
  }
  for (const [index, volume] of there.entries()) {
    if (at(volume, "secret") === undefined || textAt(volume, "secret", "secretName") !== undefined) continue;
    const path = [part, "extraVolumes", index, "secret"];
    yield problem(
      "helm-volume",
      path,
      'the volume names no Secret: "secretName" is missing',
      'add "secretName"',
      "key",
    );
  }
}

/** Folders of the node that volumes lie in must be the same in the container, mounts below them included. */
function* folders(value: unknown, connections: readonly ConnectionFile[]): Iterable<SchemaFinding> {
  const mounts = listAt(value, "node", "driver", "extraVolumeMounts");
  for (const connection of connections) {
    const facts = factsOf(connection);
    const roots = facts?.local ? (facts.territory?.trees ?? []) : [];
    for (const root of roots.map(path => textAt(connection.read.tidied, ...path) ?? "")) {
      if (!root.startsWith("/")) continue;
      const index = mounts.findIndex(mount => isAtOrAbove(textAt(mount, "mountPath"), root));
      const path = ["node", "driver", "extraVolumeMounts"];
      if (index < 0)
        yield problem(
          "helm-local-volume",
          path,
          `${root}, where volumes of connection "${connection.name}" lie, is not mounted into the node's container`,
          "mount the folder of the host there, with mountPropagation: Bidirectional",
          "key",
        );
      else if (textAt(mounts[index], "mountPropagation") !== "Bidirectional")
        yield problem(
          "helm-local-volume",
          [...path, index, "mountPropagation"],
          `without it, mounts of volumes below ${root} stay inside the container`,
          'write "mountPropagation: Bidirectional"',
        );
    }
  }
}

const isAtOrAbove = (folder: string | undefined, path: string): boolean =>
  folder !== undefined && folder !== "" && `${path}/`.startsWith(`${folder.replace(/\/+$/, "")}/`);
