import { groupBy } from "../../core/group-by.ts";
import { problem } from "../../schema/finding.ts";
import { factsOf } from "../facts.ts";
import type { Reported } from "../leaf.ts";
import { type ConnectionFile, textAt, type World } from "../world.ts";

/** A tree of datasets or folders that a connection regards as its own. */
interface Territory {
  readonly connection: ConnectionFile;
  /** The system it is on; equal text means the same system. */
  readonly system: string;
  /** Parts of the path. */
  readonly tree: readonly string[];
  readonly path: readonly string[];
}

/** Two connections that regard the same storage as theirs list, adopt and delete each other's volumes. */
export function* storage({ connections }: World): Iterable<Reported> {
  const bySystem = groupBy(connections.flatMap(territories), ({ system }) => system);
  for (const all of bySystem.values()) yield* overlaps(all);
}

function territories(connection: ConnectionFile): readonly Territory[] {
  const { driver, read } = connection;
  const { zfs, directory, local } = factsOf(driver);
  const territory = (system: string, path: readonly string[]): readonly Territory[] => {
    const text = textAt(read.tidied, ...path);
    const tree = (text ?? "").split("/").filter(part => part !== "");
    // An unknown variable could stand for anything.
    return text === undefined || text.includes("${") || tree.length === 0 ? [] : [{ connection, system, tree, path }];
  };
  if (zfs) {
    const host =
      textAt(read.tidied, "httpConnection", "host") ?? textAt(read.tidied, "sshConnection", "host") ?? "this host";
    const system = `zfs on ${local ? "each node" : host.toLowerCase()}`;
    return ["datasetParentName", "detachedSnapshotsDatasetParentName"].flatMap(key => territory(system, ["zfs", key]));
  }
  if (!directory) return [];
  const section = driver === "local-hostpath" ? driver : driver.replace(/-client$/, "");
  const host = textAt(read.tidied, section, "shareHost");
  return territory(`${section} on ${host?.toLowerCase() ?? "each node"}`, [section, "shareBasePath"]);
}

function* overlaps(all: readonly Territory[]): Iterable<Reported> {
  const sorted = [...all].sort((a, b) => a.tree.length - b.tree.length);
  const taken = new Map<string, Territory>();
  for (const inner of sorted) {
    const key = inner.tree.join("/");
    const outer = inner.tree
      .map((_, index) => taken.get(inner.tree.slice(0, index + 1).join("/")))
      .find(each => each !== undefined && each.connection !== inner.connection);
    if (outer) yield { leaf: inner.connection.leaf, finding: overlap(inner, outer) };
    if (!taken.has(key)) taken.set(key, inner);
  }
}

function overlap(inner: Territory, outer: Territory) {
  const same = inner.tree.length === outer.tree.length;
  const message = `connection "${outer.connection.name}" has ${same ? "the same" : "the enclosing"} ${outer.path.join(".")} on the same system, so each takes the other's volumes for its own`;
  return problem("shared-storage", inner.path, message, "give each connection a tree of its own");
}
