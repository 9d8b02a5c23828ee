import { type Protocol, protocols } from "../../core/access.ts";
import { type Path, problem, type SchemaFinding, warning } from "../../schema/finding.ts";
import { factsOf, isDisk, isLocal } from "../facts.ts";
import { at, type ConnectionFile, type LintInput, textAt } from "../lint-input.ts";
import type { DocumentFinding } from "../source-document.ts";
import { containersOf, isController, isPatch, isSidecar, servedNames } from "../workloads.ts";
import { ownProvisioners } from "./class-target.ts";

/**
 * Rules about attaching. kube-controller-manager keeps a ReadWriteOnce volume on one node only where the CSIDriver says
 * `attachRequired: true` (the API's default), and waits then for an attachment that external-attacher confirms.
 */
export function* attach(world: LintInput): Iterable<DocumentFinding> {
  const names = namesIn(world);
  for (const { leaf, path, value } of world.drivers) {
    const name = textAt(value, "metadata", "name") ?? "";
    const connections = servedBy(name, names, world);
    if (!connections) continue;
    const place = [...path, "spec", "attachRequired"];
    if (at(value, "spec", "attachRequired") === false) {
      const disks = diskOf(name, connections, world);
      if (disks !== undefined) yield { leaf, finding: required(place, disks) };
    } else if (lacksAttacher(name, world)) yield { leaf, finding: attacherMissing(place) };
  }
  for (const { leaf, value } of world.helm) {
    const place = ["csiDriver", "attachRequired"];
    const disks = diskOf(textAt(value, "csiDriver", "name") ?? "", world.connections, world);
    if (at(value, ...place) !== false) {
      const enabled = ["controller", "externalAttacher", "enabled"];
      if (at(value, ...enabled) === false) yield { leaf, finding: attacherMissing(enabled) };
    } else if (disks !== undefined) yield { leaf, finding: required(place, disks) };
  }
}

const required = (path: Path, disks: string): SchemaFinding =>
  problem(
    "attach-required",
    path,
    `${disks} serves disks, which Kubernetes then lets two nodes mount at once: that destroys their file systems`,
    'write "attachRequired: true" and run csi-attacher beside the controller; Kubernetes takes this change only with a new object: delete the CSIDriver first',
  );

const attacherMissing = (path: Path): SchemaFinding =>
  warning(
    "attacher-missing",
    path,
    "volumes must be attached, but no external-attacher is there to confirm it: pods wait for their volumes forever",
    "run csi-attacher beside the controller",
    "key",
  );

/** Names under which csimux answers, each with the one connection that it leads to, or with undefined for all of them. */
type Names = ReadonlyMap<string, string | undefined>;

const namesIn = (world: LintInput): Names =>
  new Map([...[...ownProvisioners(world)].map(name => [name, undefined] as const), ...servedNames(world.workloads)]);

/** The connections behind a CSIDriver; undefined for one of another driver. */
function servedBy(
  name: string,
  names: Names,
  { connections, drivers }: LintInput,
): readonly ConnectionFile[] | undefined {
  const others = drivers.map(({ value }) => textAt(value, "metadata", "name")).filter(other => other !== name);
  const isOurs = names.has(name) || isPatch(name) || (names.size === 0 && others.length === 0);
  if (!isOurs) return undefined;
  const connection = names.get(name);
  return connection === undefined ? connections : connections.filter(each => each.name === connection);
}

/** What serves disks that several nodes can reach, for a message; undefined where nothing is known to do so. */
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

/** Whether the controller of csimux is among the files and no csi-attacher is, for a driver that no file exempts from attaching. */
function lacksAttacher(name: string, { drivers, workloads }: LintInput): boolean {
  const exempt = drivers.some(({ value }) => {
    const other = textAt(value, "metadata", "name") ?? "";
    return (other === name || isPatch(other)) && at(value, "spec", "attachRequired") === false;
  });
  const containers = workloads.flatMap(containersOf);
  return !exempt && containers.some(isController) && !containers.some(each => isSidecar(each, "attacher"));
}
