import { readConnection } from "../../lib/config/connection.ts";
import type { ProxyConfig } from "../../lib/config/proxy.ts";
import { type CopyReach, copyMethods, onlyPossible } from "../../lib/copies/matrix.ts";
import { groupBy } from "../../lib/core/group-by.ts";
import { modules } from "../../lib/drivers/index.ts";
import { copyEndOf } from "../../lib/lint/copy-ends.ts";
import type { ValueResolver } from "../../lib/schema/value-resolver.ts";
import { someOf } from "../terminal/table.ts";
import { methodsText } from "../validate/methods-text.ts";

/** The most kinds of sources that are compared. */
const mostRows = 200;
/** The most names of one list for people. */
const mostNames = 6;

/** The methods between the connections of a folder, as far as the files say. */
export interface FolderWays {
  readonly enabled: boolean;
  readonly targets: readonly FolderTargets[];
  /** Connections with files that are not valid here. */
  readonly unread: ReadonlySet<string>;
  /** Connections whose content is not compared, because there are too many different ones. */
  readonly omitted: readonly string[];
}

/** Connections, and those that their content reaches in one manner. */
interface FolderTargets {
  readonly from: readonly string[];
  readonly reached: ReadonlySet<string>;
  readonly reach: CopyReach;
}

/** Where the `dataSource` of a class's claims may be besides their own connection, and by which way its content comes. */
export interface DataSources {
  readonly enabled: boolean;
  readonly rows: readonly DataSourceRow[];
  readonly unknown: readonly string[];
}

interface DataSourceRow extends CopyReach {
  readonly from: readonly string[];
}

/** Reads the files, texts by name of the connection, as `serve` does. Undefined if fewer than two are valid. */
export function folderWays(
  files: ReadonlyMap<string, string>,
  { defaults, copies }: Pick<ProxyConfig, "defaults" | "copies">,
  resolver: ValueResolver,
): FolderWays | undefined {
  const ends = [...files].flatMap(([name, text]) => {
    const read = readConnection(name, `${name}.yaml`, text, defaults, resolver, modules);
    return copyEndOf({ name, read }) ?? [];
  });
  if (ends.length < 2) return undefined;
  const { rows, omitted } = onlyPossible(copyMethods(ends, copies, mostRows));
  const targets = rows.flatMap(row =>
    row.targets.map(({ to, eachOther, ...reach }) => {
      const reached = new Set([...to, ...(eachOther ? row.from : [])]);
      return { from: row.from, reached, reach };
    }),
  );
  const unread = new Set(files.keys());
  for (const { name } of ends) unread.delete(name);
  return { enabled: copies.enabled, targets, unread, omitted };
}

/** The sources for new volumes on some of these connections; undefined if nothing is known of any of them. Pure. */
export function dataSourcesOf(
  members: readonly string[],
  { enabled, targets, unread, omitted }: FolderWays,
): DataSources | undefined {
  if (members.every(name => unread.has(name))) return undefined;
  const found = targets.flatMap(({ from, reached, reach }) => {
    const onto = members.filter(name => reached.has(name));
    const sources = from.filter(name => onto.some(each => each !== name));
    return sources.length > 0 ? [{ from: sources, reach }] : [];
  });
  const rows = [...groupBy(found, ({ reach }) => JSON.stringify(reach)).values()].flatMap(group => {
    const [first] = group;
    return first ? [{ from: group.flatMap(({ from }) => from), ...first.reach }] : [];
  });
  return { enabled, rows, unknown: [...unread, ...omitted].filter(name => !members.includes(name)) };
}

/** One line for people. */
export function dataSourcesText({ enabled, rows, unknown }: DataSources): string {
  const head = "dataSource on other connections, as far as the files say";
  if (!enabled) return `${head}: none, because "proxy.copies.enabled" is false`;
  const from = rows.map(row => `${someOf(row.from, mostNames)} (${methodsText(row)})`);
  const rest = unknown.length > 0 ? `; not known of ${someOf(unknown, mostNames)}` : "";
  return `${head}: ${from.join("; ") || "none"}${rest}`;
}

/** The same for programs. */
export const dataSourcesData = ({ rows, unknown }: DataSources) => ({ rows, unknown });
