import { readFileSync } from "node:fs";
import { join } from "node:path";

/** What the middleware's own models say about methods: names, types and limits. See README.md of this folder's parent. */

/** A type of JSON. "$1" names one of Facts.types; a pair of numbers limits a length or a value; `of` has exactly these fields. */
export type Type =
  | string
  | { readonly in: readonly unknown[] }
  | { readonly or: readonly Type[] }
  | { readonly list: Type }
  | { readonly dict: Type }
  | { readonly of: Fields }
  | { readonly str: Limits }
  | { readonly int: Limits };

type Limits = readonly [least: number | null, most: number | null];

/** "required": in each request; "default": in each answer, because the server completes it; "absent": in neither. */
export type Mark = "required" | "default" | "absent";

export type Fields = Readonly<Record<string, readonly [Mark, Type]>>;

export interface MethodFacts {
  /** Where the model is, below src/middlewared/middlewared. */
  readonly file: string;
  /** Models of pydantic convert nothing and bind answers, too; older schemas do not. */
  readonly kind: "pydantic" | "schema";
  readonly args: readonly (readonly [name: string, field: readonly [Mark, Type]])[];
  readonly result: Type;
}

/** The facts about one version. */
export interface Facts {
  /** The tag of the middleware that they were read from. */
  readonly tag: string;
  readonly types: Readonly<Record<string, Type>>;
  readonly methods: Readonly<Record<string, MethodFacts>>;
}

const read = new Map<string, Facts | undefined>();
const known: ReadonlySet<string> = new Set(["24.10", "25.04", "25.10", "26.0"]);

/** The facts about a version; undefined for those older than 24.10. */
export function factsOf(version: string): Facts | undefined {
  if (!read.has(version)) {
    const path = join(import.meta.dir, `${version}.json`);
    read.set(version, known.has(version) ? (JSON.parse(readFileSync(path, "utf8")) as Facts) : undefined);
  }
  return read.get(version);
}
