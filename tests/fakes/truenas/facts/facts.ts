import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before2410 } from "./older.ts";

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

/** What a field holds, and what it has when a request lacks it; no default is null. */
export type Field = readonly [mark: Mark, type: Type, fallback?: unknown];

export type Fields = Readonly<Record<string, Field>>;

export interface MethodFacts {
  /** Where the model is, below src/middlewared/middlewared. */
  readonly file: string;
  /** Models of pydantic convert nothing and bind answers, too; older schemas do not. */
  readonly kind: "pydantic" | "schema";
  readonly args: readonly (readonly [name: string, field: Field])[];
  readonly result: Type;
}

/** The facts about one version. */
export interface Facts {
  /** The tag of the middleware that they were read from. */
  readonly tag: string;
  readonly types: Readonly<Record<string, Type>>;
  readonly methods: Readonly<Record<string, MethodFacts>>;
}

const read = new Map<string, Facts>();
const known: ReadonlySet<string> = new Set(["24.10", "25.04", "25.10", "26.0"]);

/** The facts about a version; undefined for those older than 24.10. */
export const factsOf = (version: string): Facts | undefined =>
  known.has(version) ? once(version, () => fileOf(version)) : undefined;

/** What a version takes: its facts, or what is known of an older one. */
export function modelsOf(version: string): Facts {
  return (
    factsOf(version) ??
    once(version, () =>
      before2410(
        once("24.10", () => fileOf("24.10")),
        Number(version.replace(".", "")),
      ),
    )
  );
}

const fileOf = (version: string): Facts =>
  JSON.parse(readFileSync(join(import.meta.dir, `${version}.json`), "utf8")) as Facts;

function once(version: string, make: () => Facts): Facts {
  const found = read.get(version) ?? make();
  read.set(version, found);
  return found;
}
