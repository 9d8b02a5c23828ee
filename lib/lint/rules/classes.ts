import type { Path } from "../../schema/finding.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import { type AccessibleTopology, fitsTerm, type PlacementPolicy } from "../../topology/accessible-topology.ts";
import { ownClasses, targetOf } from "../class-target.ts";
import { type DocumentDiagnostic, nameOf } from "../document.ts";
import { factsOf, isLocal } from "../facts.ts";
import {
  at,
  type ClassObject,
  type ConnectionFile,
  type LintInput,
  listAt,
  mappingAt,
  textAt,
  textOf,
} from "../lint-input.ts";
import { error, type Found, report, rulesById, type Theme, warning } from "../rule.ts";
import { isPatch, servedNames } from "../workloads.ts";
import { reportsOf } from "./topology.ts";

const rule = rulesById({
  "class-driver": error(
    "Classes name the driver",
    "No driver serves a class with another name. A name that is only similar is a warning.",
  ),
  "class-without-connection": error("A StorageClass names its connection", "Every claim of the class would fail."),
  "class-connection-missing": error("Classes name connections that exist", "Every claim of the class would fail."),
  "class-binding": warning(
    "Classes of local drivers bind late",
    "With immediate binding, the node of the volume is chosen before that of the pod, which may not fit there.",
  ),
  "class-expansion": error(
    "Only volumes that can be expanded may be",
    "Claims accept a new size that the volume never gets.",
  ),
  "class-suspended": warning(
    "A connection of the class accepts new volumes",
    "A suspended connection gets no new volumes, so every claim of the class fails.",
  ),
  "class-topology": error(
    "allowedTopologies can be satisfied",
    "If no node or connection matches, every claim of the class stays pending.",
  ),
});

/** Rules about StorageClasses and VolumeSnapshotClasses of csimux. */
export const classes: Theme = {
  rules: Object.values(rule),
  *check(input) {
    const own = ownClasses(input);
    yield* drivers(own, input);
    for (const each of own) {
      const target = targetOf(each, input);
      if ("missing" in target) yield missing(each, target.missing, target.names);
      else if (each.kind === "storage") yield* storageClass(each, target.members, input);
    }
  },
};

const keyOf = ({ kind }: ClassObject): string => (kind === "storage" ? "provisioner" : "driver");

/** Compares the drivers of classes with the names that csimux is deployed under. */
function* drivers(own: readonly ClassObject[], input: LintInput): Found {
  const inChart = input.helm.flatMap(each => textAt(each.value, "csiDriver", "name") ?? []);
  const names = inChart.length > 0 ? inChart : namesInManifests(input);
  const known = new Set([...names, ...own.flatMap(({ provisioner }) => provisioner ?? [])]);
  for (const each of input.classes) {
    const { document, path, provisioner, inHelm } = each;
    if (inHelm || provisioner === undefined) continue;
    const key = keyOf(each);
    if (own.includes(each)) {
      if (names.length === 0 || names.includes(provisioner)) continue;
      const message = `the class is for "${provisioner}", but the driver is called "${names.join('", "')}"${inChart.length > 0 ? " (csiDriver.name)" : ""}`;
      yield report(document, rule["class-driver"], [...path, key], message, `write "${key}: ${names[0]}"`);
      continue;
    }
    const near = nearest(provisioner, known);
    if (near === undefined) continue;
    const message = `"${provisioner}" is similar to the name of the driver, but not equal; the class is not checked further`;
    yield report(document, { ...rule["class-driver"], severity: "warning" }, [...path, key], message, meant(near));
  }
}

/**
 * The driver names in manifests: those in the arguments of csimux, or without a workload that of the only CSIDriver. None if kustomize
 * still has to insert them: parts and patches of a kustomization may have any name.
 */
function namesInManifests({ drivers: objects, workloads, kustomizations }: LintInput): readonly string[] {
  const served = [...servedNames(workloads).keys()];
  if (kustomizations.length > 0 || served.some(name => name.includes("$("))) return [];
  if (served.length > 0) return served;
  const names = objects.map(({ value }) => textAt(value, "metadata", "name") ?? "").filter(name => !isPatch(name));
  return names.length === 1 ? names : [];
}

function missing(each: ClassObject, name: string | undefined, names: readonly string[]): DocumentDiagnostic {
  const path = [...each.path, "parameters", "connection"];
  if (name === undefined) {
    const fix = 'add "connection: <name of a connection file or group>"';
    return report(each.document, rule["class-without-connection"], path, "the class names no connection", fix);
  }
  const plain = nameOf(name);
  const near = names.includes(plain) ? plain : nearest(name, names);
  const fix = near ? meant(near) : `add a file ${plain}.yaml to the connections`;
  const message = `there is no connection or group "${name}"`;
  return report(each.document, rule["class-connection-missing"], path, message, fix);
}

function* storageClass(each: ClassObject, members: readonly ConnectionFile[], input: LintInput): Found {
  const { document, path, value } = each;
  const local = members.find(isLocal);
  if (local && textAt(value, "volumeBindingMode") !== "WaitForFirstConsumer") {
    const message = `a ${local.driver} volume exists on one node, which is chosen before that of the pod`;
    const fix = 'write "volumeBindingMode: WaitForFirstConsumer"';
    yield report(document, rule["class-binding"], [...path, "volumeBindingMode"], message, fix);
  }
  const rigid = members.find(member => factsOf(member)?.expands === false);
  if (rigid && value["allowVolumeExpansion"] === true) {
    const message = `connection "${rigid.name}" (${rigid.driver}) cannot expand volumes`;
    yield report(document, rule["class-expansion"], [...path, "allowVolumeExpansion"], message, "remove it");
  }
  if (members.length > 0 && members.every(({ read }) => at(read.normalized, "suspended") === true)) {
    const names = members.map(({ name }) => `"${name}"`).join(", ");
    const message = `${names} ${members.length === 1 ? "is" : "are"} suspended, so the class gets no new volumes`;
    const fix = 'remove "suspended: true" from a connection, or remove the class';
    yield report(document, rule["class-suspended"], [...path, "parameters", "connection"], message, fix);
  }
  yield* allowedTopologies(each, members, input);
}

type Term = Readonly<Record<string, string>>;

const termsOf = (entry: unknown): readonly Term[] =>
  listAt(entry, "matchLabelExpressions").reduce<readonly Term[]>(
    (terms, expression) => {
      const key = textAt(expression, "key") ?? "";
      return terms
        .flatMap(term => listAt(expression, "values").map(value => ({ ...term, [key]: textOf(value) })))
        .slice(0, 1000);
    },
    [{}],
  );

function* allowedTopologies(each: ClassObject, members: readonly ConnectionFile[], { main }: LintInput): Found {
  const { document } = each;
  const entries = listAt(each.value, "allowedTopologies");
  const config = main?.read.partial;
  if (entries.length === 0 || !config) return;
  const path = [...each.path, "allowedTopologies"];
  const topology = config.nodeTopology;
  // A wrong topology has its own finding.
  if (!topology && at(main.proxy, "nodeTopology")) return;
  if (!topology) {
    const message = "the main file does not configure what nodes report, so no node can match";
    yield report(document, rule["class-topology"], path, message, 'add "nodeTopology" to the main file', "key");
    return;
  }
  const { prefix } = topology;
  const keys = [...reportsOf(topology).keys()].map(key => `${prefix}/${key}`);
  const foreign = [...unknownKeys(each, path, keys, members)];
  yield* foreign;
  if (foreign.length > 0 || members.length === 0) return;
  const policy: PlacementPolicy = { prefix, match: config.topologyMatch, report: "all", honourPreferred: "off" };
  const terms = entries.flatMap(termsOf);
  if (members.some(member => terms.some(term => fitsTerm(topologyOf(member, prefix), term, policy)))) return;
  const names = members.map(({ name }) => `"${name}"`).join(", ");
  const message = `no allowed topology reaches ${names}: ${difference(terms, members, prefix)}`;
  yield report(document, rule["class-topology"], path, message, "allow a topology of the connection", "key");
}

/** The topologies of the class and of its connections, without the prefix. */
function difference(terms: readonly Term[], members: readonly ConnectionFile[], prefix: string): string {
  const inWords = (term: Term): string =>
    Object.entries(term)
      .map(([key, value]) => `${key.startsWith(`${prefix}/`) ? key.slice(prefix.length + 1) : key}=${value}`)
      .join(" and ");
  const few = (all: readonly Term[]): string => {
    const words = [...new Set(all.map(inWords))];
    return words.slice(0, 4).join(" or ") + (words.length > 4 ? " or …" : "");
  };
  const required = members.flatMap(member => topologyOf(member, prefix).map(({ requirements }) => requirements));
  return `the class allows ${few(terms)}, the ${members.length === 1 ? "connection requires" : "connections require"} ${few(required)}`;
}

function* unknownKeys(
  { document, value }: ClassObject,
  path: Path,
  reported: readonly string[],
  members: readonly ConnectionFile[],
): Found {
  const extra = members.flatMap(member => topologyOf(member, "").flatMap(each => Object.keys(each.extra)));
  for (const [index, entry] of listAt(value, "allowedTopologies").entries()) {
    for (const [position, expression] of listAt(entry, "matchLabelExpressions").entries()) {
      const key = textAt(expression, "key") ?? "";
      if (reported.includes(key) || extra.includes(key)) continue;
      const here = [...path, index, "matchLabelExpressions", position, "key"];
      const message = `nodes do not report "${key}"`;
      yield report(document, rule["class-topology"], here, message, `they report: ${reported.join(", ")}`);
    }
  }
}

/** The topology of a connection; keys with their prefix. */
function topologyOf({ read }: ConnectionFile, prefix: string): readonly AccessibleTopology[] {
  const texts = (values: object, before = ""): Term =>
    Object.fromEntries(Object.entries(values).map(([key, value]) => [before + key, textOf(value)]));
  return listAt(read.normalized, "proxy", "perDriver", "topology").map(each => ({
    requirements: texts(mappingAt(each, "requirements"), `${prefix}/`),
    extra: texts(mappingAt(each, "extra")),
  }));
}
