import { groupBy } from "../../core/group-by.ts";
import type { Path } from "../../schema/finding.ts";
import type { DocumentDiagnostic } from "../document.ts";
import { factsOf } from "../facts.ts";
import { at, type ConnectionFile, mappingAt, textAt } from "../lint-input.ts";
import { error, type Found, report, rulesById, type Theme, warning } from "../rule.ts";

const rule = rulesById({
  "shared-storage": error(
    "Every connection has its own dataset or folder",
    "Two connections on one tree list, adopt and delete each other's volumes. It is a warning if names cannot clash: for a tree next to the other's volumes, and for volumes distinguished by protocol or by the instance_ids of both connections.",
  ),
  "size-not-enforced": warning(
    "The file says whether datasets are held to their size",
    "Without `zfs.datasetEnableQuotas: true` a volume has no limit: one pod can fill the pool of all, and pods see the room of the pool. Write `false` if that is meant.",
  ),
});

/** Rules about connections that use the same storage. */
export const storage: Theme = {
  rules: Object.values(rule),
  *check({ connections }) {
    const bySystem = groupBy(connections.flatMap(treesOf), ({ system }) => system);
    const reported = new Set<string>();
    // A pair is one problem, the worst that it has.
    for (const all of bySystem.values())
      for (const { inner, outer } of [...overlaps(all)].sort((a, b) => clash(b) - clash(a))) {
        // The snapshots of such a pair mostly overlap as well, for the same reason.
        const pair = JSON.stringify([inner.connection.name, outer.connection.name].sort());
        if (!reported.has(pair)) yield overlap(inner, outer);
        reported.add(pair);
      }
    for (const connection of connections) yield* size(connection);
  },
};

function* size(connection: ConnectionFile): Found {
  const { document, read } = connection;
  const facts = factsOf(connection);
  if (!facts?.provisions || facts.territory?.system !== "zfs" || facts.access.kinds.includes("block")) return;
  if (at(mappingAt(read.normalized, "zfs"), "datasetEnableQuotas") !== undefined) return;
  const message = "the size of a volume is not enforced, so one pod can fill the pool";
  yield report(document, rule["size-not-enforced"], ["zfs"], message, 'add "datasetEnableQuotas: true"', "key");
}

/** A tree of datasets or folders that a connection treats as its own. */
interface StorageTree {
  readonly connection: ConnectionFile;
  /** Equal text means the same storage system. */
  readonly system: string;
  /** Parts of the tree's path. */
  readonly tree: readonly string[];
  /** The key that names the tree. */
  readonly path: Path;
  /** Distinguishes the volumes of two connections in one tree; undefined if nothing does. */
  readonly mark: VolumeMarks | undefined;
  /** First path components below the tree used for volumes and unfinished work; empty: any. */
  readonly inside: readonly string[];
}

interface VolumeMarks {
  readonly volumes: "all" | "some";
  readonly family: string;
  readonly instance: string | undefined;
}

function treesOf(connection: ConnectionFile): readonly StorageTree[] {
  const { normalized } = connection.read;
  const facts = factsOf(connection);
  if (!facts?.territory) return [];
  const { system: kind, hosts, trees, inside = [], marked } = facts.territory;
  const host = facts.local
    ? undefined
    : hosts.map(path => textAt(normalized, ...path)).find(each => each !== undefined);
  // Host names ignore case and the dot of the root zone (RFC 4343, RFC 1034 section 3.1).
  const system = `${kind} on ${host?.toLowerCase().replace(/\.$/, "") ?? "each node"}`;
  const mark = marked && { volumes: marked, family: facts.family, instance: textAt(normalized, "instance_id") };
  return trees.flatMap(path => {
    const text = textAt(normalized, ...path) ?? "";
    const tree = text.split("/").filter(part => part !== "");
    // An unknown variable could have any value.
    return text.includes("${") || tree.length === 0 ? [] : [{ connection, system, tree, path, mark, inside }];
  });
}

interface Overlap {
  readonly inner: StorageTree;
  readonly outer: StorageTree;
}

/** Each tree that is equal to or below trees of other connections, with the first one whose names can clash, or else with the first. */
function* overlaps(all: readonly StorageTree[]): Iterable<Overlap> {
  const sorted = [...all].sort((a, b) => a.tree.length - b.tree.length);
  const seen = new Map<string, StorageTree[]>();
  for (const inner of sorted) {
    const key = inner.tree.join("/");
    const outers = inner.tree
      .flatMap((_, index) => seen.get(inner.tree.slice(0, index + 1).join("/")) ?? [])
      .filter(each => each.connection !== inner.connection);
    const outer = outers.find(each => clashes(inner, each)) ?? outers[0];
    if (outer) yield { inner, outer };
    const same = seen.get(key);
    if (same) same.push(inner);
    else seen.set(key, [inner]);
  }
}

/** Whether names can clash; a separate tree next to the other's volumes is not affected by them. */
function clashes(inner: StorageTree, outer: StorageTree): boolean {
  const below = inner.tree[outer.tree.length];
  return below === undefined ? !areDistinct(inner.mark, outer.mark) : outer.inside.includes(below);
}

const clash = ({ inner, outer }: Overlap): number => Number(clashes(inner, outer));

/** If some volumes have no instance_id, they belong to every connection of their family, so both connections need one. */
function areDistinct(a: VolumeMarks | undefined, b: VolumeMarks | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  if (a.family !== b.family) return true;
  const both = a.instance !== undefined && b.instance !== undefined;
  return a.instance !== b.instance && (a.volumes === "all" || both);
}

function overlap(inner: StorageTree, outer: StorageTree): DocumentDiagnostic {
  const { document, name } = outer.connection;
  const position = document.source.position(outer.path, "value");
  const { line } = document.outward(position) ?? document.start;
  const same = inner.tree.length === outer.tree.length ? "the same as" : "inside";
  const where = `this is ${same} ${outer.path.join(".")} of connection "${name}" (${document.file}:${line})`;
  const fix = "give each connection its own tree";
  if (clashes(inner, outer))
    return report(
      inner.connection.document,
      rule["shared-storage"],
      inner.path,
      `${where}, so each treats the other's volumes as its own`,
      fix,
    );
  return report(
    inner.connection.document,
    { ...rule["shared-storage"], severity: "warning" },
    inner.path,
    `${where}; each uses only the volumes that csimux marked as its own, but counts the other's as used space`,
    `${fix}, or accept it with # csimux-ignore shared-storage`,
  );
}
