import { posix } from "node:path";
import { unknownFolder } from "../../config/proxy.ts";
import { type Protocol, protocols } from "../../core/access.ts";
import type { Path } from "../../schema/finding.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import { ownProvisioners } from "../class-target.ts";
import type { DocumentDiagnostic, SourceDocument } from "../document.ts";
import { factsOf, isDisk, isLocal } from "../facts.ts";
import { at, type ConnectionFile, type LintInput, listAt, type ManifestObject, textAt, textOf } from "../lint-input.ts";
import { error, type Found, report, rulesById, type Theme, warning } from "../rule.ts";
import { storesOf } from "../unseen.ts";
import { argsOf, containersOf, isController, isPatch, isSidecar, mountedAt, servedNames } from "../workloads.ts";

const rule = rulesById({
  "attach-required": error(
    "Disks are attached",
    "Kubernetes keeps a ReadWriteOnce volume on one node only if its driver has `attachRequired: true`, in the CSIDriver or in Helm values. Otherwise a pod that is replaced while its node is away, or during a rolling update, mounts the disk on a second node, and both destroy its file system.",
  ),
  "attacher-missing": warning(
    "csi-attacher runs if attaching is required",
    "Without csi-attacher, nothing confirms that a volume is attached, and pods wait for it forever. `attachRequired` is true by default.",
  ),
  "capacity-tracking": warning(
    "Free space is both published and used",
    "kube-scheduler uses free space if the CSIDriver has `storageCapacity: true`, and csi-provisioner publishes it with `--enable-capacity=true`. With the first alone, pods wait for a volume forever; the second alone has no effect.",
  ),
  "workload-secret": error(
    "The pod mounts the Secret with the connections",
    "A pod with another Secret finds no connections, and one with a Secret that does not exist never starts.",
  ),
  "kustomize-file-missing": error(
    "Every connection file is in the Secret",
    "kustomize puts only the files named by `secretGenerator` into a Secret; csimux never sees the others.",
  ),
});

/** Rules about a CSIDriver, the workloads, Secrets and a kustomization of csimux, which must agree. */
export const manifests: Theme = {
  rules: Object.values(rule),
  *check(input) {
    yield* attaching(input);
    yield* capacity(input);
    yield* secrets(input);
    for (const each of input.kustomizations) yield* forgottenFiles(each, input.connections);
  },
};

/**
 * kube-controller-manager keeps a ReadWriteOnce volume on one node only if the CSIDriver has `rule["attach-required"]: true` (the default), and then
 * waits for an attachment confirmed by external-attacher.
 */
function* attaching(input: LintInput): Found {
  const names: Names = new Map([
    ...[...ownProvisioners(input)].map(name => [name, undefined] as const),
    ...servedNames(input.workloads),
  ]);
  for (const { document, path, value } of input.drivers) {
    const name = textAt(value, "metadata", "name") ?? "";
    const connections = servedBy(name, names, input);
    if (!connections) continue;
    const here = [...path, "spec", "attachRequired"];
    if (at(value, "spec", "attachRequired") !== false) {
      if (lacksAttacher(name, input)) yield withoutAttacher(document, here);
    } else yield* withoutAttaching(document, here, diskOf(name, connections, input));
  }
  for (const { document, value } of input.helm) {
    const here = ["csiDriver", "attachRequired"];
    const enabled = ["controller", "externalAttacher", "enabled"];
    if (at(value, ...here) !== false) {
      if (at(value, ...enabled) === false) yield withoutAttacher(document, enabled);
    } else {
      const name = textAt(value, "csiDriver", "name") ?? "";
      yield* withoutAttaching(document, here, diskOf(name, input.connections, input));
    }
  }
}

function* withoutAttaching(document: SourceDocument, path: Path, disk: string | undefined): Found {
  if (disk === undefined) return;
  const message = `${disk} serves disks, and Kubernetes lets two nodes mount one at once, which destroys its file system`;
  const fix =
    'write "attachRequired: true" and run csi-attacher with the controller; delete the CSIDriver first, because Kubernetes accepts this change only in a new object';
  yield report(document, rule["attach-required"], path, message, fix);
}

const withoutAttacher = (document: SourceDocument, path: Path): DocumentDiagnostic =>
  report(
    document,
    rule["attacher-missing"],
    path,
    "volumes must be attached, but no external-attacher confirms it: pods wait for their volumes forever",
    "run csi-attacher with the controller",
    "key",
  );

/** Driver names served by csimux, each with the connection of its alias; undefined: all connections. */
type Names = ReadonlyMap<string, string | undefined>;

/** The connections of a CSIDriver; undefined for another driver. */
function servedBy(name: string, names: Names, { connections, drivers }: LintInput) {
  const others = drivers.map(({ value }) => textAt(value, "metadata", "name")).filter(other => other !== name);
  const isOurs = names.has(name) || isPatch(name) || (names.size === 0 && others.length === 0);
  if (!isOurs) return undefined;
  const connection = names.get(name);
  return connection === undefined ? connections : connections.filter(each => each.name === connection);
}

/** The first connection or PersistentVolume with disks that several nodes can reach, in words. */
function diskOf(name: string, connections: readonly ConnectionFile[], { volumes }: LintInput): string | undefined {
  const connection = connections.find(each => factsOf(each)?.protocol !== undefined && isDisk(each) && !isLocal(each));
  if (connection) return `connection "${connection.name}" (${connection.driver})`;
  const volume = volumes.find(
    ({ value }) =>
      textAt(value, "spec", "csi", "driver") === name &&
      isSharedDisk(textAt(value, "spec", "csi", "volumeAttributes", "node_attach_driver")),
  );
  return volume && `PersistentVolume "${textAt(volume.value, "metadata", "name") ?? ""}"`;
}

const isSharedDisk = (protocol: string | undefined): boolean => {
  const access = protocol !== undefined && Object.hasOwn(protocols, protocol) && protocols[protocol as Protocol];
  return access !== false && access.kinds.some(kind => kind === "block") && !access.sharedWriters;
};

/** Whether the files have a controller of csimux without csi-attacher, and no CSIDriver disables attaching. */
function lacksAttacher(name: string, { drivers, workloads }: LintInput): boolean {
  const disabled = drivers.some(({ value }) => {
    const other = textAt(value, "metadata", "name") ?? "";
    return (other === name || isPatch(other)) && at(value, "spec", "attachRequired") === false;
  });
  const containers = workloads.flatMap(containersOf);
  return !disabled && containers.some(isController) && !containers.some(each => isSidecar(each, "attacher"));
}

function* capacity({ drivers, workloads }: LintInput): Found {
  const provisioners = workloads
    .map(containersOf)
    .filter(each => each.some(isController))
    .flatMap(each => each.filter(container => isSidecar(container, "provisioner")));
  const names = servedNames(workloads);
  if (provisioners.length === 0) return;
  const isPublished = provisioners.some(each =>
    argsOf(each).some(arg => arg === "--enable-capacity" || arg === "--enable-capacity=true"),
  );
  for (const { document, path, value } of drivers) {
    const name = textAt(value, "metadata", "name") ?? "";
    const isUsed = at(value, "spec", "storageCapacity") === true;
    // An alias has its own provisioner.
    if (isPatch(name) || !names.has(name) || names.get(name) !== undefined || isUsed === isPublished) continue;
    const message = isUsed
      ? 'the scheduler waits for free space that nothing publishes: csi-provisioner lacks "--enable-capacity=true"'
      : 'csi-provisioner publishes free space ("--enable-capacity=true"), but the scheduler does not use it';
    const here = [...path, "spec", "storageCapacity"];
    yield report(document, rule["capacity-tracking"], here, message, "set both or neither", isUsed ? "value" : "key");
  }
}

/** Compares the Secret or ConfigMap that the controller mounts as its connection folder with those in the files. */
function* secrets({ main, connections, workloads, stores, kustomizations }: LintInput): Found {
  const folder = main?.read.partial?.configFolder;
  const inObjects = connections.some(({ document }) => document.inside !== "");
  if (folder === undefined || folder === unknownFolder || !inObjects) return;
  const controllers = workloads.filter(each => containersOf(each).some(isController));
  const all = storesOf({ stores, kustomizations });
  for (const { workload, index, kind, name } of mountedAt(controllers, folder)) {
    const names = all.filter(each => each.kind === kind).map(each => each.name);
    if (names.includes(name)) continue;
    const key = kind === "Secret" ? ["secret", "secretName"] : ["configMap", "name"];
    const path = [...workload.path, "spec", "template", "spec", "volumes", index, ...key];
    const near = nearest(name, names);
    const fix = near === undefined ? `there are: ${names.join(", ")}` : meant(near);
    const message = `there is no ${kind} "${name}" among these files, so the pod finds no connections`;
    yield report(workload.document, rule["workload-secret"], path, message, fix);
  }
}

/** Connection files next to those of a generated Secret that it does not name. */
function* forgottenFiles({ document, value }: ManifestObject, connections: readonly ConnectionFile[]): Found {
  const home = posix.dirname(document.file);
  const plain = connections
    .filter(each => each.document.inside === "")
    .map(each => posix.normalize(each.document.file));
  for (const [index, generator] of listAt(value, "secretGenerator").entries()) {
    const named = listAt(generator, "files").map(each => posix.join(home, textOf(each).replace(/^[^=]*=/, "")));
    const folders = plain.filter(file => named.includes(file)).map(posix.dirname);
    for (const file of plain) {
      if (!folders.includes(posix.dirname(file)) || named.includes(file)) continue;
      const entry = posix.relative(home, file);
      const message = `${entry} is next to the connection files of this Secret, but not in it`;
      const path = ["secretGenerator", index, "files"];
      yield report(document, rule["kustomize-file-missing"], path, message, `add "- ${entry}"`, "key");
    }
  }
}
