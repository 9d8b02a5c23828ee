import { commonSchema } from "../config/common.ts";
import { readConnectionSource } from "../config/connection.ts";
import { type Defaults, type ReadProxy, readProxySource } from "../config/proxy.ts";
import { readSingle } from "../config/single.ts";
import type { DriverModule } from "../drivers/module.ts";
import type { Path } from "../schema/finding.ts";
import { nearest } from "../schema/nearest.ts";
import { aboutOf, keysOf, type Schema, schemaAt } from "../schema/shape.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import { type ConnectionFile, type MainFile, mappingAt, textAt } from "./lint-input.ts";
import { type SourceDocument, secretByName } from "./source-document.ts";

/** Documents in which a connection or main file was found, before it is read. */
export interface UnreadDocument {
  readonly leaf: SourceDocument;
  readonly name: string;
  readonly role: "main" | "connection";
  /** The user said that it is the main file. */
  readonly named?: boolean;
}

/** Reads a main file as `serve` would. */
export function mainFile(leaf: SourceDocument, modules: readonly DriverModule[], outside: ValueResolver): MainFile {
  const read: ReadProxy = readSingle(readProxySource(leaf.source, outside), modules, outside);
  const schemas = modules.map(({ schema }) => schema);
  // Defaults of connections may hold secrets; what no driver knows may be a mistyped one.
  const isSecret = within(
    leaf,
    path => path[0] !== "driver" && path[0] !== "proxy" && !schemas.some(schema => isPlain(schema, path)),
  );
  return { leaf: { ...leaf, isSecret }, read, proxy: mappingAt(leaf.source.value, "proxy") };
}

/** The rule for a part of a document, by the paths of the whole; what stands around the part goes by names. */
function within({ above = [] }: SourceDocument, isSecret: SourceDocument["isSecret"]): SourceDocument["isSecret"] {
  return path =>
    above.every((step, index) => path[index] === step)
      ? path.length > above.length && isSecret(path.slice(above.length))
      : secretByName(path);
}

/** Reads a connection as `serve` would. */
export function connectionFile(
  { leaf, name }: UnreadDocument,
  defaults: Defaults,
  modules: readonly DriverModule[],
  outside: ValueResolver,
): ConnectionFile {
  const read = readConnectionSource(name, leaf.source, defaults, outside, modules);
  const driver = textAt(leaf.source.value, "driver") ?? "";
  const schemas = [commonSchema, ...(read.module ? [read.module.schema] : [])];
  const isSecret = within(leaf, path => !schemas.some(schema => isPlain(schema, path)));
  return { leaf: { ...leaf, isSecret }, name, read, driver };
}

/**
 * Whether the schema knows the key, or one that it is a mistyped form of, and neither it nor what is around it is secret.
 * Anything else may be a mistyped secret.
 */
const isPlain = (schema: Schema, path: Path): boolean =>
  path.length > 0 &&
  path.every((step, index) => {
    const here = schemaAt(schema, path.slice(0, index + 1)) ?? mistypedAt(schema, path.slice(0, index), step);
    return here !== undefined && aboutOf(here).secret !== true;
  });

/** The schema of the key that was probably meant, unless a secret is near as well. */
function mistypedAt(schema: Schema, parent: Path, step: Path[number]): Schema | undefined {
  const around = schemaAt(schema, parent);
  if (around === undefined || typeof step !== "string" || secretByName([step])) return undefined;
  const isSecret = (key: string): boolean => secretAt(schema, [...parent, key]);
  const keys = [...keysOf(around)];
  const near = nearest(step, keys);
  if (near === undefined || isSecret(near) || nearest(step, keys.filter(isSecret)) !== undefined) return undefined;
  return schemaAt(schema, [...parent, near]);
}

const secretAt = (schema: Schema, path: Path): boolean => {
  const found = schemaAt(schema, path);
  return found !== undefined && aboutOf(found).secret === true;
};
