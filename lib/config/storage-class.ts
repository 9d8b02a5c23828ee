import { CsiError } from "../core/errors.ts";
import { isMapping, type Mapping } from "../schema/mapping.ts";
import type { ClassTopology } from "../topology/reach.ts";
import { manifestBudget } from "../yaml/budget.ts";
import { parseYamlDocuments } from "../yaml/parse.ts";

/** The parts of a StorageClass that determine the topology of its volumes. */
export interface StorageClass extends ClassTopology {
  readonly name: string;
  /** The connection or group named by the class. */
  readonly connection: string;
}

/**
 * Reads the StorageClasses of a manifest or list that name a connection. Throws "invalid-argument" if there is no
 * StorageClass, or none that names a connection.
 */
export function readStorageClasses(file: string, text: string): readonly StorageClass[] {
  const sources = parseYamlDocuments(file, text, manifestBudget);
  const broken = sources.flatMap(({ diagnostics }) => diagnostics).find(({ blocks }) => blocks);
  if (broken) throw bad(`${file}:${broken.line}:${broken.column}`, broken.message);
  const classes = sources.flatMap(({ value }) => objects(value)).filter(each => each["kind"] === "StorageClass");
  if (classes.length === 0) throw bad(file, "contains no StorageClass");
  const ours = classes.filter(connectionIn);
  if (ours.length === 0) throw bad(file, 'no class has the parameter "connection"');
  return ours.map(each => storageClass(file, each));
}

/** The connection named by a class; undefined for a class of another driver. */
function connectionIn({ parameters }: Mapping): string | undefined {
  const connection = isMapping(parameters) ? parameters["connection"] : undefined;
  return typeof connection === "string" && connection !== "" ? connection : undefined;
}

function objects(value: unknown): readonly Mapping[] {
  if (!isMapping(value)) return [];
  const { items } = value;
  if (!Array.isArray(items)) return [value];
  // The cluster's API does not repeat the kind in each item of a list.
  const kind = value["kind"] === "StorageClassList" ? { kind: "StorageClass" } : {};
  return items.filter(isMapping).map(each => ({ ...kind, ...each }));
}

function storageClass(file: string, value: Mapping): StorageClass {
  const { metadata, volumeBindingMode: binding = "Immediate" } = value;
  const name = isMapping(metadata) ? String(metadata["name"] ?? "") : "";
  const connection = connectionIn(value) ?? "";
  if (binding !== "Immediate" && binding !== "WaitForFirstConsumer")
    throw bad(file, "volumeBindingMode must be Immediate or WaitForFirstConsumer");
  return {
    name,
    connection,
    binding,
    allowed: listOf(value["allowedTopologies"]).map(term => allowedTerm(file, term)),
  };
}

/** `matchLabelExpressions` of one entry of `allowedTopologies`. */
const allowedTerm = (file: string, term: unknown): ClassTopology["allowed"][number] =>
  listOf(isMapping(term) ? term["matchLabelExpressions"] : undefined).map(expression => {
    const { key, values } = isMapping(expression) ? expression : {};
    if (typeof key !== "string" || !Array.isArray(values))
      throw bad(file, 'each matchLabelExpression of allowedTopologies needs "key" and a list of "values"');
    return { key, values: values.map(String) };
  });

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

const bad = (file: string, why: string): CsiError => new CsiError("invalid-argument", `${file}: ${why}`);
