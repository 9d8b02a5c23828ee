import { problem, type SchemaFinding, warning } from "../../schema/finding.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import { at, type ClassObject, type LintInput, textAt } from "../lint-input.ts";
import { headFault } from "../object-kinds.ts";
import { headFinding } from "../objects.ts";
import type { DocumentFinding } from "../source-document.ts";
import { isPatch, servedNames } from "../workloads.ts";

const words = {
  storage: { volumeBindingMode: ["Immediate", "WaitForFirstConsumer"], reclaimPolicy: ["Delete", "Retain"] },
  snapshot: { deletionPolicy: ["Delete", "Retain"] },
} as const;

const common = ["apiVersion", "kind", "metadata", "parameters"] as const;

/** The fields that Kubernetes has; it refuses others, or drops them without a word. */
const fieldNames: Readonly<Record<ClassObject["kind"], readonly string[]>> = {
  storage: [
    ...common,
    ...[
      "provisioner",
      "reclaimPolicy",
      "mountOptions",
      "allowVolumeExpansion",
      "volumeBindingMode",
      "allowedTopologies",
    ],
  ],
  snapshot: [...common, "driver", "deletionPolicy"],
};

/** Rules about the fields of one class, whatever its connection. */
export function* fields(each: ClassObject): Iterable<SchemaFinding> {
  const fault = each.ours ? undefined : headFault(each.value);
  if (fault) yield headFinding(fault, each.path);
  yield* values(each);
  yield* types(each);
  if (!each.ours) yield* misspelt(each);
  yield* naming(each);
}

function* values(each: ClassObject): Iterable<SchemaFinding> {
  for (const [key, allowed] of Object.entries(words[each.kind])) {
    const value = textAt(each.value, key);
    if (value !== undefined && !allowed.some(word => word === value)) {
      yield problem("class-field", [...each.path, key], `must be ${allowed.join(" or ")}`);
    }
  }
  if (each.kind === "snapshot" && !each.ours && textAt(each.value, "deletionPolicy") === undefined) {
    yield problem(
      "class-field",
      [...each.path, "deletionPolicy"],
      'a VolumeSnapshotClass needs "deletionPolicy"',
      'add "deletionPolicy: Delete"',
    );
  }
}

function* types(each: ClassObject): Iterable<SchemaFinding> {
  const expansion = at(each.value, "allowVolumeExpansion");
  if (expansion !== undefined && typeof expansion !== "boolean")
    yield problem(
      "class-field",
      [...each.path, "allowVolumeExpansion"],
      "must be true or false, without quotes",
      'write "allowVolumeExpansion: true"',
    );
  const options = at(each.value, "mountOptions");
  if (options !== undefined && options !== null && !Array.isArray(options))
    yield problem("class-field", [...each.path, "mountOptions"], "must be a list", "write each option behind a dash");
}

function* misspelt(each: ClassObject): Iterable<SchemaFinding> {
  for (const key of Object.keys(each.value)) {
    if (fieldNames[each.kind].includes(key)) continue;
    const near = nearest(key, fieldNames[each.kind]);
    const message = `Kubernetes has no field "${key}" here`;
    yield problem("class-field", [...each.path, key], message, near ? meant(near) : "remove it", "key");
  }
}

/** RFC 1123 subdomain, as Kubernetes wants names of objects. */
const objectName = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

const nameAt = (each: ClassObject): readonly string[] => (each.ours ? ["name"] : ["metadata", "name"]);

function* naming(each: ClassObject): Iterable<SchemaFinding> {
  const name = textAt(each.value, ...nameAt(each));
  const path = [...each.path, ...nameAt(each)];
  if (name === undefined) yield problem("class-name", path, "the class has no name", 'add "name" with one');
  else if (!objectName.test(name)) {
    const lower = name.toLowerCase();
    const fix = objectName.test(lower) ? `write "${lower}"` : 'use small letters, digits, "-" and "."';
    yield problem("class-name", path, `"${name}" cannot name an object of Kubernetes`, fix);
  }
}

/** Rules about classes among each other, and about the driver that they name. */
export function* namedDrivers(all: readonly ClassObject[], world: LintInput): Iterable<DocumentFinding> {
  const { helm, classes } = world;
  const ofChart = helm.flatMap(each => textAt(each.value, "csiDriver", "name") ?? []);
  const drivers = ofChart.length > 0 ? ofChart : namesOfManifests(world);
  const seen = new Map<string, ClassObject>();
  for (const each of all) {
    const name = `${each.kind} ${textAt(each.value, ...nameAt(each)) ?? ""}`;
    const before = seen.get(name);
    seen.set(name, before ?? each);
    if (before && textAt(each.value, ...nameAt(each)) !== undefined) {
      const message = `another class has this name: ${before.leaf.file}`;
      yield {
        leaf: each.leaf,
        finding: problem("class-name", [...each.path, ...nameAt(each)], message, "rename one of the two"),
      };
    }
    const finding = each.ours ? undefined : wrongDriver(each, drivers, ofChart.length > 0 ? " (csiDriver.name)" : "");
    if (finding) yield { leaf: each.leaf, finding };
  }
  const own = new Set([...drivers, ...all.flatMap(({ provisioner }) => provisioner ?? [])]);
  for (const each of classes) {
    if (all.includes(each)) continue;
    const near = each.provisioner === undefined ? undefined : nearest(each.provisioner, own);
    if (near !== undefined) yield { leaf: each.leaf, finding: mistyped(each, near) };
    if (each.provisioner === undefined) yield { leaf: each.leaf, finding: missing(each, [...own]) };
  }
}

/**
 * The names of the driver that manifests give: csimux's arguments, or without a workload the only CSIDriver. None where kustomize has
 * still to put them in: parts and patches of a kustomization may say anything.
 */
function namesOfManifests({ drivers, workloads, kustomizations }: LintInput): readonly string[] {
  const served = [...servedNames(workloads).keys()];
  if (kustomizations.length > 0 || served.some(name => name.includes("$("))) return [];
  if (served.length > 0) return served;
  const names = drivers.map(({ value }) => textAt(value, "metadata", "name") ?? "").filter(name => !isPatch(name));
  return names.length === 1 ? names : [];
}

const keyOf = ({ kind }: ClassObject): string => (kind === "storage" ? "provisioner" : "driver");

function wrongDriver(each: ClassObject, drivers: readonly string[], key: string): SchemaFinding | undefined {
  if (each.provisioner === undefined) return missing(each, drivers);
  if (drivers.length === 0 || drivers.includes(each.provisioner)) return undefined;
  const message = `the class is for "${each.provisioner}", but the driver is called "${drivers.join('", "')}"${key}`;
  return problem("class-driver", [...each.path, keyOf(each)], message, `write "${keyOf(each)}: ${drivers[0]}"`);
}

function missing(each: ClassObject, drivers: readonly string[]): SchemaFinding {
  const key = keyOf(each);
  const kind = each.kind === "storage" ? "StorageClass" : "VolumeSnapshotClass";
  const fix = `add "${key}: ${drivers[0] ?? "<name of the driver>"}"`;
  return problem("class-driver", [...each.path, key], `a ${kind} needs "${key}"`, fix);
}

const mistyped = (each: ClassObject, near: string): SchemaFinding =>
  warning(
    "class-driver",
    [...each.path, keyOf(each)],
    `"${each.provisioner}" is not the driver, but nearly; the class is not checked any further`,
    meant(near),
  );
