import { groupBy } from "../../core/group-by.ts";
import { type Path, problem, type SchemaFinding, warning } from "../../schema/finding.ts";
import { factsOf } from "../facts.ts";
import { type ConnectionFile, type LintInput, textAt } from "../lint-input.ts";
import type { DocumentFinding } from "../source-document.ts";

/** A tree of datasets or folders that a connection regards as its own. */
interface StorageTree {
  readonly connection: ConnectionFile;
  /** The system it is on; equal text means the same system. */
  readonly system: string;
  /** Parts of the path. */
  readonly tree: readonly string[];
  readonly path: readonly string[];
  /** What tells the volumes of two connections in one tree apart; undefined where nothing does. */
  readonly mark: VolumeMarks | undefined;
  /** First parts below the tree under which volumes and what is being made of them are kept; any name where there are none. */
  readonly taken: readonly string[];
}

interface VolumeMarks {
  readonly volumes: "all" | "some";
  readonly family: string;
  readonly instance: string | undefined;
}

/** Two connections that regard the same storage as theirs list, adopt and clear away each other's volumes. */
export function* storage({ connections }: LintInput): Iterable<DocumentFinding> {
  const bySystem = groupBy(connections.flatMap(territories), ({ system }) => system);
  const told = new Set<string>();
  for (const all of bySystem.values()) {
    for (const { inner, outer } of overlaps(all)) {
      // Their snapshots mostly overlap as well, for the same reason.
      const pair = JSON.stringify([inner.connection.name, outer.connection.name].sort());
      if (told.has(pair)) continue;
      told.add(pair);
      yield { leaf: inner.connection.leaf, finding: overlap(inner, outer) };
    }
  }
}

/** A host by name: case and the dot of the root zone mean nothing (RFC 4343, RFC 1034 section 3.1). */
const hostName = (host: string): string => host.toLowerCase().replace(/\.$/, "");

function territories(connection: ConnectionFile): readonly StorageTree[] {
  const { read } = connection;
  const facts = factsOf(connection);
  if (!facts?.territory) return [];
  const { system: kind, hosts, trees, inside = [], marked } = facts.territory;
  const host = facts.local
    ? undefined
    : hosts.map(path => textAt(read.tidied, ...path)).find(each => each !== undefined);
  const system = `${kind} on ${host === undefined ? "each node" : hostName(host)}`;
  const mark = marked && { volumes: marked, family: facts.family, instance: textAt(read.tidied, "instance_id") };
  return trees.flatMap(path => {
    const text = textAt(read.tidied, ...path);
    const tree = (text ?? "").split("/").filter(part => part !== "");
    // An unknown variable could stand for anything.
    return text === undefined || text.includes("${") || tree.length === 0
      ? []
      : [{ connection, system, tree, path, mark, taken: inside }];
  });
}

interface Overlap {
  readonly inner: StorageTree;
  readonly outer: StorageTree;
}

/** For each territory that lies in another one, or is the same, the first such. */
function* overlaps(all: readonly StorageTree[]): Iterable<Overlap> {
  const sorted = [...all].sort((a, b) => a.tree.length - b.tree.length);
  const taken = new Map<string, StorageTree>();
  for (const inner of sorted) {
    const key = inner.tree.join("/");
    const outer = inner.tree
      .map((_, index) => taken.get(inner.tree.slice(0, index + 1).join("/")))
      .find(each => each !== undefined && each.connection !== inner.connection);
    if (outer) yield { inner, outer };
    if (!taken.has(key)) taken.set(key, inner);
  }
}

/** Whether names can clash: a tree of its own beside the other's volumes is not touched by them. */
function clashes(inner: StorageTree, outer: StorageTree): boolean {
  const below = inner.tree[outer.tree.length];
  if (below === undefined) return !toldApart(inner.mark, outer.mark);
  return outer.taken.includes(below);
}

/** Where some volumes bear no instance_id, these are of every connection of their family, so both must have one. */
function toldApart(a: VolumeMarks | undefined, b: VolumeMarks | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  if (a.family !== b.family) return true;
  const both = a.instance !== undefined && b.instance !== undefined;
  return a.instance !== b.instance && (a.volumes === "all" || both);
}

function overlap(inner: StorageTree, outer: StorageTree): SchemaFinding {
  const same = inner.tree.length === outer.tree.length;
  const key = outer.path.join(".");
  const other = `connection "${outer.connection.name}" (${whereabouts(outer)})`;
  const where = same ? `the same as ${key} of ${other}` : `inside ${key} of ${other}`;
  const fix = "give each connection a tree of its own";
  if (clashes(inner, outer)) {
    const message = `this is ${where}, so each takes the other's volumes for its own`;
    return problem("shared-storage", inner.path, message, fix);
  }
  const message = `this is ${where}; each keeps to the volumes that csimux marked as its own, but sees the other's as used space`;
  return warning("shared-storage", inner.path, message, `${fix}, or say here: # csimux-ignore shared-storage`);
}

/** Where the other half of a pair stands. */
function whereabouts({ connection: { leaf }, path }: StorageTree): string {
  const inner = leaf.source.position(path as Path, "value");
  const outward = leaf.outward(inner) ?? leaf.start;
  return `${leaf.file}:${outward.line}`;
}
