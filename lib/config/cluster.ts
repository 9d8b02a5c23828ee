import { CsiError } from "../core/errors.ts";
import { isMapping, type Mapping } from "../core/mapping.ts";
import { isNodeName } from "../core/name.ts";
import { placeOf } from "../core/place.ts";
import type { Budget } from "../yaml/budget.ts";
import { parseYamlDocuments } from "../yaml/parse.ts";

type Texts = Readonly<Record<string, string>>;

/** One node of a list given by a user. */
export interface ListedNode {
  readonly name: string;
  readonly hostname: string | undefined;
  /** Undefined if the list has no labels. */
  readonly labels: Texts | undefined;
  readonly env: Texts;
  readonly files: Texts;
}

/** One entry of `allowedTopologies`: every key must have one of its values. */
export type AllowedTopology = readonly { readonly key: string; readonly values: readonly string[] }[];

/** The parts of a StorageClass that determine which nodes can use its volumes. */
export interface StorageClass {
  readonly name: string;
  /** The connection or group named by the class. */
  readonly connection: string;
  /** Alternatives; empty: any topology. */
  readonly allowed: readonly AllowedTopology[];
}

/** Enough for the Node objects of a large cluster, with the images of every node. */
const budget: Budget = { bytes: 64 << 20, parts: Number.POSITIVE_INFINITY };

/**
 * Reads nodes as YAML or JSON: the output of `kubectl get nodes` with `-o json` or `-o yaml`, one Node, or a list of names or of mappings
 * with `name`, `hostname`, `labels`, `env`, `files`; or plain names: one per line, as in the output of `-o name` or the default table, or
 * all on one line, as from `-o jsonpath`. StorageClasses among them are read, too. Throws "invalid-argument" for anything else.
 */
export function readNodesAndClasses(
  file: string,
  text: string,
): { readonly nodes: readonly ListedNode[]; readonly classes: readonly StorageClass[] } {
  const documents = documentsOf(file, text);
  const [only] = documents;
  const all = documents.length === 1 && typeof only === "string" ? names(text) : documents.flatMap(items);
  const nodes = all.filter(each => !isClass(each)).map((node, index) => listedNode(file, node, index));
  if (nodes.length === 0) throw bad(file, "contains no nodes");
  const seen = new Set<string>();
  for (const { name } of nodes) {
    if (seen.has(name)) throw bad(file, `node "${name}" is listed twice`);
    seen.add(name);
  }
  return { nodes, classes: classesOf(file, all) };
}

/**
 * Reads the StorageClasses of a manifest or list that name a connection. Throws "invalid-argument" if there is no
 * StorageClass, or none that names a connection.
 */
export function readStorageClasses(file: string, text: string): readonly StorageClass[] {
  const all = documentsOf(file, text).flatMap(items);
  if (!all.some(isClass)) throw bad(file, "contains no StorageClass");
  const classes = classesOf(file, all);
  if (classes.length === 0) throw bad(file, 'no class has the parameter "connection"');
  return classes;
}

/** A PersistentVolume of a CSI driver, and its claim. */
export interface VolumeClaim {
  readonly handle: string;
  /** Like `placeOf`. */
  readonly place?: string | undefined;
  /** The name of the PersistentVolume. */
  readonly volume: string;
  /** namespace/name; undefined if it is not bound. */
  readonly claim: string | undefined;
  /** Whether it names another driver. */
  readonly isOther?: boolean;
}

/** What is known of a cluster; undefined if it is not. */
export interface ClusterFacts {
  readonly nodes: readonly Pick<ListedNode, "name" | "labels">[] | undefined;
  /** The PersistentVolumes of csimux, and those of other drivers that name a storage: a volume may have been taken over. */
  readonly claims: readonly VolumeClaim[] | undefined;
  /** Why something is unknown. */
  readonly problems: readonly string[];
}

/**
 * Reads the nodes and the PersistentVolumes of one driver from the output of `kubectl get nodes,pv -o json`, or `-o yaml`; ignores other
 * objects. Throws "invalid-argument" if there is neither.
 */
export function readNodesAndVolumes(file: string, text: string, driver: string): ClusterFacts {
  const all = documentsOf(file, text).flatMap(items).filter(isMapping);
  const kinds = (kind: string) => all.filter(each => each["kind"] === kind);
  const [nodes, volumes] = [kinds("Node"), kinds("PersistentVolume")];
  if (volumes.length === 0 && nodes.length === 0) throw bad(file, "contains no nodes and no PersistentVolumes");
  return {
    nodes: nodes.length > 0 ? nodes.map((node, index) => listedNode(file, node, index)) : undefined,
    claims: volumes.length > 0 ? claimsOf(volumes, driver) : undefined,
    problems: [],
  };
}

/** The PersistentVolumes of one driver among objects, and those of others that name a storage. */
export const claimsOf = (volumes: readonly unknown[], driver: string): readonly VolumeClaim[] =>
  volumes.filter(isMapping).flatMap(each => claimOf(each, driver) ?? []);

function claimOf({ metadata, spec }: Mapping, driver: string): VolumeClaim | undefined {
  const { csi, claimRef } = isMapping(spec) ? spec : {};
  const { name } = isMapping(metadata) ? metadata : {};
  if (!isMapping(csi) || typeof csi["volumeHandle"] !== "string") return undefined;
  const { volumeAttributes } = csi;
  const place = isMapping(volumeAttributes) ? placeOf(volumeAttributes) : undefined;
  if (csi["driver"] !== driver && place === undefined) return undefined;
  const claim = isMapping(claimRef) ? `${String(claimRef["namespace"])}/${String(claimRef["name"])}` : undefined;
  const isOther = csi["driver"] !== driver;
  return { handle: csi["volumeHandle"], place, volume: String(name), claim, ...(isOther && { isOther }) };
}

/** The objects of a manifest or list, as YAML or JSON. Throws "invalid-argument" for text that is neither. */
export const readObjects = (file: string, text: string): readonly Mapping[] =>
  documentsOf(file, text).flatMap(items).filter(isMapping);

function documentsOf(file: string, text: string): readonly unknown[] {
  if (/^\s*[[{]/.test(text)) {
    try {
      return [JSON.parse(text)];
    } catch {
      // YAML in flow style starts like JSON.
    }
  }
  const sources = parseYamlDocuments(file, text, budget);
  const broken = sources.flatMap(({ diagnostics }) => diagnostics).find(({ blocks }) => blocks);
  if (broken) throw bad(`${file}:${broken.line}:${broken.column}`, broken.message);
  return sources.map(({ value }) => value);
}

/** The objects of a document: of a list its items, to which the cluster's API gives no kind of their own. */
function items(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (!isMapping(value)) return value === null || value === undefined ? [] : [value];
  if (!Array.isArray(value["items"])) return [value];
  const [, kind] = /^(.+)List$/.exec(String(value["kind"])) ?? [];
  return value["items"].map((each: unknown) => (isMapping(each) && kind ? { kind, ...each } : each));
}

/**
 * Names as kubectl prints them: the first word of each line, without the header and "node/"; or each word of the only
 * line.
 */
function names(text: string): readonly unknown[] {
  const rows = text
    .split(/\r?\n/)
    .map(line => line.trim().split(/\s+/))
    .filter(([first]) => first !== "");
  const [only, ...more] = rows;
  // In a table the word after the name is a status, such as Ready.
  const words = only && more.length === 0 && only.every(isNodeName) ? only : rows.map(([first = ""]) => first);
  return words.map(word => word.replace(/^nodes?\//, "")).filter(word => word !== "NAME");
}

function listedNode(file: string, node: unknown, index: number): ListedNode {
  const entry = isMapping(node) ? node : { name: node };
  const metadata = isMapping(entry["metadata"]) ? entry["metadata"] : undefined;
  const { kind = "Node" } = entry;
  if (kind !== "Node") throw bad(file, `entry ${index + 1} is a ${String(kind)}, not a Node`);
  const name = metadata ? metadata["name"] : entry["name"];
  if (typeof name !== "string" || !isNodeName(name))
    throw bad(file, `entry ${index + 1} has no valid node name (a DNS name)`);
  const labels = metadata ? (metadata["labels"] ?? {}) : entry["labels"];
  const hostname = metadata ? hostnameOf(entry["status"]) : entry["hostname"];
  return {
    name,
    hostname: typeof hostname === "string" ? hostname : undefined,
    labels: isMapping(labels) ? texts(labels) : undefined,
    env: texts(entry["env"]),
    files: texts(entry["files"]),
  };
}

function hostnameOf(status: unknown): unknown {
  const addresses = listOf(isMapping(status) ? status["addresses"] : undefined);
  const found = addresses.find(each => isMapping(each) && each["type"] === "Hostname");
  return isMapping(found) ? found["address"] : undefined;
}

const isClass = (value: unknown): value is Mapping => isMapping(value) && value["kind"] === "StorageClass";

/** The classes that name a connection; others belong to other drivers. */
const classesOf = (file: string, all: readonly unknown[]): readonly StorageClass[] =>
  all.filter(isClass).flatMap(({ metadata, parameters, allowedTopologies }) => {
    const connection = isMapping(parameters) ? parameters["connection"] : undefined;
    if (typeof connection !== "string" || connection === "") return [];
    const name = isMapping(metadata) ? String(metadata["name"] ?? "") : "";
    return [{ name, connection, allowed: listOf(allowedTopologies).map(each => allowedTopology(file, each)) }];
  });

const allowedTopology = (file: string, entry: unknown): AllowedTopology =>
  listOf(isMapping(entry) ? entry["matchLabelExpressions"] : undefined).map(expression => {
    const { key, values } = isMapping(expression) ? expression : {};
    if (typeof key !== "string" || !Array.isArray(values))
      throw bad(file, 'each matchLabelExpression of allowedTopologies needs "key" and a list of "values"');
    return { key, values: values.map(String) };
  });

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

const texts = (value: unknown): Texts =>
  Object.fromEntries(Object.entries(isMapping(value) ? value : {}).map(([key, each]) => [key, String(each)]));

const bad = (file: string, why: string): CsiError => new CsiError("invalid-argument", `${file}: ${why}`);
