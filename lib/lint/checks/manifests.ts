import { posix } from "node:path";
import { unknownFolder } from "../../config/proxy.ts";
import { problem, type SchemaFinding, warning } from "../../schema/finding.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import { at, type ConnectionFile, type LintInput, listAt, type ManifestObject, textAt } from "../lint-input.ts";
import type { DocumentFinding } from "../source-document.ts";
import { storesOf } from "../unseen.ts";
import { argsOf, containersOf, isController, isPatch, isSidecar, mountedAt, servedNames } from "../workloads.ts";

/** Rules about a Deployment, DaemonSet, CSIDriver and kustomization of csimux: what must agree between them. */
export function* manifests(world: LintInput): Iterable<DocumentFinding> {
  yield* capacity(world);
  yield* secrets(world);
  for (const kustomization of world.kustomizations)
    for (const finding of forgotten(kustomization, world.connections)) yield { leaf: kustomization.leaf, finding };
}

/** kube-scheduler reads CSIStorageCapacity objects where the CSIDriver says so, and external-provisioner makes them when told. */
function* capacity({ drivers, workloads }: LintInput): Iterable<DocumentFinding> {
  const provisioners = workloads
    .map(containersOf)
    .filter(each => each.some(isController))
    .flatMap(each => each.filter(container => isSidecar(container, "provisioner")));
  const names = servedNames(workloads);
  if (provisioners.length === 0) return;
  const tracking = provisioners.some(each =>
    argsOf(each).some(arg => arg === "--enable-capacity" || arg === "--enable-capacity=true"),
  );
  for (const { leaf, path, value } of drivers) {
    const name = textAt(value, "metadata", "name") ?? "";
    const isOn = at(value, "spec", "storageCapacity") === true;
    // An alias has a provisioner of its own.
    if (isPatch(name) || !names.has(name) || names.get(name) !== undefined || isOn === tracking) continue;
    const message = isOn
      ? 'the scheduler waits for free space that nothing tells: csi-provisioner has no "--enable-capacity=true"'
      : 'csi-provisioner tells the free space ("--enable-capacity=true"), but the scheduler does not look at it';
    const place = [...path, "spec", "storageCapacity"];
    yield { leaf, finding: warning("capacity-tracking", place, message, "set both or none", isOn ? "value" : "key") };
  }
}

/** The Secret that the controller mounts as its connection folder is the one that holds the connections. */
function* secrets({ main, connections, workloads, stores, kustomizations }: LintInput): Iterable<DocumentFinding> {
  const folder = main?.read.partial?.configFolder;
  const inObjects = connections.some(({ leaf }) => leaf.inside !== "");
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
    yield { leaf: workload.leaf, finding: problem("workload-secret", path, message, fix) };
  }
}

/** Connection files that lie beside those of a generated Secret and are not named there. */
function* forgotten({ leaf, value }: ManifestObject, connections: readonly ConnectionFile[]): Iterable<SchemaFinding> {
  const home = posix.dirname(leaf.file);
  for (const [index, generator] of listAt(value, "secretGenerator").entries()) {
    const files = listAt(generator, "files").map(each => posix.join(home, String(each).replace(/^[^=]*=/, "")));
    const folders = new Set(
      connections.map(({ leaf: { file } }) => posix.normalize(file)).filter(file => files.includes(file)),
    );
    const beside = new Set([...folders].map(posix.dirname));
    for (const connection of connections) {
      const file = posix.normalize(connection.leaf.file);
      if (connection.leaf.inside !== "" || !beside.has(posix.dirname(file)) || files.includes(file)) continue;
      const entry = posix.relative(home, file);
      yield problem(
        "kustomize-file-missing",
        ["secretGenerator", index, "files"],
        `${entry} lies beside the connection files of this Secret, but is not in it`,
        `add "- ${entry}"`,
        "key",
      );
    }
  }
}
