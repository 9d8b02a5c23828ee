import { CallError } from "./failure.ts";

/** Filters and options of every `…query` method (utils/filter_list.py of TS-25.10.6; utils/__init__.py of TS-24.10.2.4). */

type Row = Readonly<Record<string, unknown>>;

/** The second parameter of a query. */
export interface QueryOptions {
  readonly extra?: Readonly<Record<string, unknown>>;
  readonly select?: readonly string[];
  readonly order_by?: readonly string[];
  readonly limit?: number;
  readonly offset?: number;
  readonly count?: boolean;
  readonly get?: boolean;
}

function at(row: unknown, path: string): unknown {
  let value: unknown = row;
  for (const step of path.split(/(?<!\\)\./).map(part => part.replaceAll("\\.", "."))) {
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Row)[step];
  }
  return value;
}

const lower = (value: unknown): unknown => (typeof value === "string" ? value.toLowerCase() : value);

function compares(operator: string, left: unknown, right: unknown): boolean {
  switch (operator) {
    case "=":
      return left === right;
    case "!=":
      return left !== right;
    case ">":
      return Number(left) > Number(right);
    case "<":
      return Number(left) < Number(right);
    case "~":
      return new RegExp(String(right)).test(String(left));
    case "^":
      return String(left).startsWith(String(right));
    case "$":
      return String(left).endsWith(String(right));
    case "in":
      return (right as readonly unknown[]).includes(left);
    case "nin":
      return !(right as readonly unknown[]).includes(left);
    case "rin":
      return (left as readonly unknown[]).includes(right);
    default:
      throw new CallError("EINVAL", `Invalid operation: ${operator}`);
  }
}

function fits(row: unknown, filter: readonly unknown[]): boolean {
  if (filter[0] === "OR") return (filter[1] as readonly (readonly unknown[])[]).some(each => fits(row, each));
  const [field, operator, value] = filter as readonly [string, string, unknown];
  if (operator.startsWith("C") && operator.length > 1) {
    return compares(operator.slice(1), lower(at(row, field)), lower(value));
  }
  return compares(operator, at(row, field), value);
}

const picked = (row: Row, select: readonly string[]): Row => Object.fromEntries(select.map(key => [key, row[key]]));

/** What a query answers about `rows`. Throws ENOENT when `get` is given and nothing fits. */
export function queried(rows: readonly Row[], filters: unknown, options: QueryOptions = {}): unknown {
  const wanted = (filters ?? []) as readonly (readonly unknown[])[];
  let found = rows.filter(row => wanted.every(filter => fits(row, filter)));
  for (const order of [...(options.order_by ?? [])].reverse()) {
    const field = order.replace(/^-/, "");
    const sign = order.startsWith("-") ? -1 : 1;
    found = [...found].sort((a, b) => sign * (String(at(a, field)) < String(at(b, field)) ? -1 : 1));
  }
  if (options.count) return found.length;
  found = found.slice(options.offset ?? 0);
  if (options.limit) found = found.slice(0, options.limit);
  if (options.select?.length) found = found.map(row => picked(row, options.select ?? []));
  if (!options.get) return found;
  if (found[0] === undefined) throw new CallError("ENOENT", "MatchNotFound()", "MatchNotFound");
  return found[0];
}
