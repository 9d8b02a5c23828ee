import { CsiError } from "../core/errors.ts";
import { isNodeName } from "../core/name.ts";
import { isMapping } from "../schema/mapping.ts";
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

/** Enough for the Node objects of a large cluster, with the images of every node. */
const budget: Budget = { bytes: 64 << 20, parts: Number.POSITIVE_INFINITY };

/**
 * Reads a list of nodes as YAML or JSON: the output of `kubectl get nodes` with `-o json` or `-o yaml`, one Node, or a
 * list of names or of mappings with `name`, `hostname`, `labels`, `env`, `files`; or plain names: one per line, as in
 * the output of `-o name` or the default table, or all on one line, as from `-o jsonpath`. Throws "invalid-argument"
 * for anything else.
 */
export function readNodeList(file: string, text: string): readonly ListedNode[] {
  const value = contentOf(file, text);
  const nodes = typeof value === "string" ? lines(text) : items(value);
  if (!nodes || nodes.length === 0) throw bad(file, "contains no nodes");
  const read = nodes.map((node, index) => listedNode(file, node, index));
  const twice = read.find(({ name }, index) => read.findIndex(other => other.name === name) < index);
  if (twice) throw bad(file, `node "${twice.name}" is listed twice`);
  return read;
}

function contentOf(file: string, text: string): unknown {
  if (/^\s*[[{]/.test(text)) {
    try {
      return JSON.parse(text);
    } catch {
      // YAML in flow style starts like JSON.
    }
  }
  const sources = parseYamlDocuments(file, text, budget);
  const broken = sources.flatMap(({ diagnostics }) => diagnostics).find(({ blocks }) => blocks);
  if (broken) throw bad(`${file}:${broken.line}:${broken.column}`, broken.message);
  return sources.length === 1 ? sources[0]?.value : sources.map(({ value }) => value);
}

/**
 * Names as kubectl prints them: the first word of each line, without the header and "node/"; or each word of the only
 * line.
 */
function lines(text: string): readonly unknown[] {
  const rows = text
    .split(/\r?\n/)
    .map(line => line.trim().split(/\s+/))
    .filter(([first]) => first !== "");
  const [only, ...more] = rows;
  // In a table the word after the name is a status, such as Ready.
  const words = only && more.length === 0 && only.every(isNodeName) ? only : rows.map(([first = ""]) => first);
  return words.map(word => word.replace(/^nodes?\//, "")).filter(word => word !== "NAME");
}

function items(value: unknown): readonly unknown[] | undefined {
  if (Array.isArray(value)) return value;
  if (!isMapping(value)) return undefined;
  if (Array.isArray(value["items"])) return value["items"];
  return value["kind"] === "Node" || value["name"] !== undefined ? [value] : undefined;
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

/** The entry of `status.addresses` with type Hostname. */
function hostnameOf(status: unknown): unknown {
  const addresses: unknown = isMapping(status) ? status["addresses"] : undefined;
  const found: unknown = Array.isArray(addresses)
    ? addresses.find((each: unknown) => isMapping(each) && each["type"] === "Hostname")
    : undefined;
  return isMapping(found) ? found["address"] : undefined;
}

const texts = (value: unknown): Texts =>
  Object.fromEntries(Object.entries(isMapping(value) ? value : {}).map(([key, each]) => [key, String(each)]));

const bad = (file: string, why: string): CsiError => new CsiError("invalid-argument", `${file}: ${why}`);
