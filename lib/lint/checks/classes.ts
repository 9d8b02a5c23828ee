import { genericMountOptions } from "../../core/access.ts";
import { problem, type SchemaFinding, warning } from "../../schema/finding.ts";
import { type AccessibleTopology, fitsTerm, type PlacementPolicy } from "../../topology/accessible-topology.ts";
import { factsOf, isLocal } from "../facts.ts";
import { at, type ClassObject, type ConnectionFile, type LintInput, listAt, mappingAt, textAt } from "../lint-input.ts";
import type { DocumentFinding } from "../source-document.ts";
import { fields, namedDrivers } from "./class-fields.ts";
import { parameters } from "./class-parameters.ts";
import { isOurs, ownProvisioners, targetOf } from "./class-target.ts";
import { reportsOf } from "./topology.ts";

/** Rules about StorageClasses and VolumeSnapshotClasses that lead to csimux. */
export function* classes(world: LintInput): Iterable<DocumentFinding> {
  const own = ownProvisioners(world);
  const ours = world.classes.filter(each => isOurs(each, own));
  yield* namedDrivers(ours, world);
  for (const each of ours) {
    const { members, finding } = targetOf(each, world);
    const findings = [
      ...(finding ? [finding] : []),
      ...fields(each),
      ...parameters(each, members),
      ...(each.kind === "storage" ? storageClass(each, members, world) : []),
    ];
    for (const found of findings) yield { leaf: each.leaf, finding: found };
  }
}

function* storageClass(
  each: ClassObject,
  members: readonly ConnectionFile[],
  world: LintInput,
): Iterable<SchemaFinding> {
  const local = members.find(isLocal);
  if (local && textAt(each.value, "volumeBindingMode") !== "WaitForFirstConsumer") {
    const message = `${local.driver} volumes exist on one node, chosen before the pod is`;
    yield warning(
      "class-binding",
      [...each.path, "volumeBindingMode"],
      message,
      'write "volumeBindingMode: WaitForFirstConsumer"',
    );
  }
  const rigid = members.find(member => factsOf(member)?.expands === false);
  if (rigid && each.value["allowVolumeExpansion"] === true) {
    const message = `connection "${rigid.name}" (${rigid.driver}) cannot expand volumes`;
    yield problem("class-expansion", [...each.path, "allowVolumeExpansion"], message, "remove it");
  }
  if (members.length > 0 && members.every(({ read }) => at(read.tidied, "suspended") === true)) {
    const names = members.map(({ name }) => `"${name}"`).join(", ");
    yield warning(
      "class-suspended",
      [...each.path, "parameters", "connection"],
      `${names} ${members.length === 1 ? "is" : "are"} suspended, so the class makes no new volume`,
      'remove "suspended: true" from a connection, or the class',
    );
  }
  yield* mounting(each, members);
  yield* allowedTopologies(each, members, world);
}

/** A folder of the node is not mounted anew, so options of file systems reach nobody. */
function* mounting(each: ClassObject, members: readonly ConnectionFile[]): Iterable<SchemaFinding> {
  const folder = members.find(member => factsOf(member)?.protocol === "hostpath");
  if (!folder) return;
  for (const [index, option] of listAt(each.value, "mountOptions").entries()) {
    if (genericMountOptions.has(String(option))) continue;
    yield warning(
      "mount-option-without-effect",
      [...each.path, "mountOptions", index],
      `volumes of connection "${folder.name}" are folders that are there already, so "${String(option)}" has no effect`,
      "remove it",
    );
  }
}

type Term = Readonly<Record<string, string>>;

/** Every combination of the values of one entry. */
function termsOf(entry: unknown): readonly Term[] {
  const expressions = listAt(entry, "matchLabelExpressions");
  return expressions.reduce<readonly Term[]>(
    (terms, expression) => {
      const key = textAt(expression, "key") ?? "";
      return terms
        .flatMap(term => listAt(expression, "values").map(value => ({ ...term, [key]: String(value) })))
        .slice(0, 1000);
    },
    [{}],
  );
}

function* allowedTopologies(
  each: ClassObject,
  members: readonly ConnectionFile[],
  world: LintInput,
): Iterable<SchemaFinding> {
  const entries = listAt(each.value, "allowedTopologies");
  const config = world.main?.read.partial;
  if (entries.length === 0 || !config) return;
  const path = [...each.path, "allowedTopologies"];
  const topology = config.nodeTopology;
  // Of a topology that is wrong itself nothing can be said.
  if (!topology && at(world.main?.proxy, "nodeTopology")) return;
  if (!topology) {
    yield problem(
      "class-topology",
      path,
      "the main file does not say what nodes report, so no node can fit",
      'add "nodeTopology" to the main file',
      "key",
    );
    return;
  }
  const { prefix } = topology;
  const reports = [...reportsOf(topology).keys()].map(key => `${prefix}/${key}`);
  const foreign = yield* keysOf(entries, path, reports, members);
  if (foreign || members.length === 0) return;
  const policy: PlacementPolicy = { prefix, match: config.topologyMatch, report: "all", honourPreferred: "off" };
  const terms = entries.flatMap(termsOf);
  const fitting = members.some(member => terms.some(term => fitsTerm(placesOf(member, prefix), term, policy)));
  if (fitting) return;
  const message = `no allowed place reaches ${members.map(({ name }) => `"${name}"`).join(", ")}: ${difference(terms, members, prefix)}`;
  yield problem("class-topology", path, message, "allow a place that the connection asks for", "key");
}

/** What the class allows and what its connections ask for, without the prefix. */
function difference(terms: readonly Term[], members: readonly ConnectionFile[], prefix: string): string {
  const inWords = (term: Term): string =>
    Object.entries(term)
      .map(([key, value]) => `${key.startsWith(`${prefix}/`) ? key.slice(prefix.length + 1) : key}=${value}`)
      .join(" and ");
  const few = (all: readonly Term[]): string => {
    const words = [...new Set(all.map(inWords))];
    return words.slice(0, 4).join(" or ") + (words.length > 4 ? " or …" : "");
  };
  const asked = members.flatMap(member => placesOf(member, prefix).map(({ requirements }) => requirements));
  return `the class allows ${few(terms)}, the ${members.length === 1 ? "connection asks" : "connections ask"} for ${few(asked)}`;
}

/** Reports keys that nothing produces; returns whether there were any. */
function* keysOf(
  entries: readonly unknown[],
  path: readonly (string | number)[],
  reports: readonly string[],
  members: readonly ConnectionFile[],
): Generator<SchemaFinding, boolean> {
  const extra = members.flatMap(member => placesOf(member, "").flatMap(place => Object.keys(place.extra)));
  let foreign = false;
  for (const [index, entry] of entries.entries()) {
    for (const [position, expression] of listAt(entry, "matchLabelExpressions").entries()) {
      const key = textAt(expression, "key") ?? "";
      if (reports.includes(key) || extra.includes(key)) continue;
      foreign = true;
      const message = `nodes do not report "${key}"`;
      yield problem(
        "class-topology",
        [...path, index, "matchLabelExpressions", position, "key"],
        message,
        `they report: ${reports.join(", ")}`,
      );
    }
  }
  return foreign;
}

/** The places of a connection, keys with their prefix. */
function placesOf({ read }: ConnectionFile, prefix: string): readonly AccessibleTopology[] {
  const texts = (values: object): Term =>
    Object.fromEntries(Object.entries(values).map(([key, value]) => [key, String(value)]));
  return listAt(read.tidied, "proxy", "perDriver", "topology").map(place => {
    const requirements = Object.entries(texts(mappingAt(place, "requirements"))).map(([key, value]) => [
      `${prefix}/${key}`,
      value,
    ]);
    return { requirements: Object.fromEntries(requirements), extra: texts(mappingAt(place, "extra")) };
  });
}
