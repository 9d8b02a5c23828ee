import { CsiError } from "../core/errors.ts";
import { isMapping, type Mapping } from "../schema/mapping.ts";
import type { ClassTopology } from "../topology/reach.ts";
import { manifestBudget } from "../yaml/budget.ts";
import { parseYamlDocuments } from "../yaml/parse.ts";

/** A StorageClass, as far as it decides where volumes go. */
export interface StorageClass extends ClassTopology {
  readonly name: string;
  /** The connection or group that it names. */
  readonly connection: string;
}

/** Reads the one StorageClass of a manifest. Throws "invalid-argument" when there is none, or several, or it names no connection. */
export function readStorageClass(file: string, text: string): StorageClass {
  const sources = parseYamlDocuments(file, text, manifestBudget);
  const broken = sources.flatMap(({ diagnostics }) => diagnostics).find(({ blocks }) => blocks);
  if (broken) throw bad(`${file}:${broken.line}:${broken.column}`, broken.message);
  const classes = sources.flatMap(({ value }) => objects(value)).filter(each => each["kind"] === "StorageClass");
  const [first] = classes;
  if (!first) throw bad(file, "no StorageClass was found in it");
  if (classes.length > 1) throw bad(file, `it holds ${classes.length} StorageClasses; give them one at a time`);
  return storageClass(file, first);
}

function objects(value: unknown): readonly Mapping[] {
  if (!isMapping(value)) return [];
  return Array.isArray(value["items"]) ? value["items"].filter(isMapping) : [value];
}

function storageClass(file: string, value: Mapping): StorageClass {
  const { metadata, parameters, volumeBindingMode: binding = "Immediate" } = value;
  const name = isMapping(metadata) ? String(metadata["name"] ?? "") : "";
  const connection = isMapping(parameters) ? parameters["connection"] : undefined;
  if (typeof connection !== "string" || connection === "") throw bad(file, 'the class has no parameter "connection"');
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
