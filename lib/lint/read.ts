import { commonSchema } from "../config/common.ts";
import { type ReadConnection, readConnectionSource } from "../config/connection.ts";
import { type Defaults, type ReadProxy, readProxySource } from "../config/proxy.ts";
import { readSingle } from "../config/single.ts";
import { isMapping } from "../core/mapping.ts";
import type { DriverModule } from "../drivers/module.ts";
import type { Path } from "../schema/finding.ts";
import { nearest } from "../schema/nearest.ts";
import { aboutOf, keysOf, type Schema, schemaAt, shapeOf } from "../schema/shape.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import { type SourceDocument, secretByName } from "./document.ts";
import { type ConnectionFile, type MainDocument, mappingAt, textAt, textOf } from "./lint-input.ts";

/** A document with a connection or main file, before it is read. */
export interface UnreadDocument {
  readonly document: SourceDocument;
  readonly name: string;
  readonly role: "main" | "connection";
  /** Whether the user named it as the main file. */
  readonly named?: boolean;
}

/** Reads a main file like `serve`. */
export function readMainDocument(
  document: SourceDocument,
  modules: readonly DriverModule[],
  resolver: ValueResolver,
): MainDocument {
  const read: ReadProxy = readSingle(readProxySource(document.source, resolver), modules, resolver);
  const schemas = modules.map(({ schema }) => schema);
  // Defaults of connections may contain secrets; a key that no driver knows may be a mistyped one.
  const isSecret = within(
    document,
    path => path[0] !== "driver" && path[0] !== "proxy" && !schemas.some(schema => isPlain(schema, path)),
  );
  return { document: { ...document, isSecret }, read, proxy: mappingAt(document.source.value, "proxy") };
}

/** Applies a rule for a part of a document to paths of the whole; outside the part, names of keys decide. */
function within({ above = [] }: SourceDocument, isSecret: SourceDocument["isSecret"]): SourceDocument["isSecret"] {
  return path =>
    above.every((step, index) => path[index] === step)
      ? path.length > above.length && isSecret(path.slice(above.length))
      : secretByName(path);
}

/** Reads a connection like `serve`. */
export function readConnectionFile(
  { document, name }: UnreadDocument,
  defaults: Defaults,
  modules: readonly DriverModule[],
  resolver: ValueResolver,
): ConnectionFile {
  const read = readConnectionSource(name, document.source, defaults, resolver, modules);
  const driver = textAt(document.source.value, "driver") ?? "";
  const schemas = [commonSchema, ...(read.module ? [read.module.schema] : [])];
  const isWrong = wrongBesideSecrets(schemas, read);
  const isSecret = within(document, path => isWrong(path) || !schemas.some(schema => isPlain(schema, path)));
  return { document: { ...document, isSecret }, name, read, driver };
}

/** A shorter text is a slip, and an address is not a secret; a login in it is hidden anyway. */
const mayBeSecret = (value: unknown): boolean => textOf(value).length >= 6 && !/^[a-z]+:\/\//.test(textOf(value));

const valueAt = (value: unknown, path: Path): unknown =>
  path.reduce<unknown>((inner, step) => (isMapping(inner) ? inner[String(step)] : undefined), value);

function expectsMapping(schema: Schema, path: Path): boolean {
  const here = schemaAt(schema, path);
  return here !== undefined && ["mapping", "free-mapping"].includes(shapeOf(here).kind);
}

/** Whether the value at a path is wrong, and secrets are expected next to it: it may be one of them, as in `port: <password>`. */
function wrongBesideSecrets(schemas: readonly Schema[], { source, diagnostics }: ReadConnection) {
  const wrong = new Set(
    diagnostics
      .filter(({ rule }) => rule === "invalid-value" || rule === "wrong-type")
      .map(({ line, column }) => `${line}:${column}`),
  );
  return (path: Path): boolean => {
    const { line, column } = source.position(path, "value");
    const value = valueAt(source.value, path);
    if (!wrong.has(`${line}:${column}`) || !mayBeSecret(value)) return false;
    // A text where a mapping belongs may be keys and values that lost their colons, secrets among them.
    if (typeof value === "string" && schemas.some(schema => expectsMapping(schema, path))) return true;
    const parent = path.slice(0, -1);
    return schemas.some(schema => {
      const around = schemaAt(schema, parent);
      const secret = (key: string) => aboutOf(schemaAt(schema, [...parent, key]) ?? schema).secret === true;
      return around !== undefined && [...keysOf(around)].some(secret);
    });
  };
}

/**
 * Whether the schema knows the key, or the one that it is a mistyped form of, and neither it nor a key around it is secret.
 * Any other key may be a mistyped secret.
 */
const isPlain = (schema: Schema, path: Path): boolean =>
  path.length > 0 &&
  path.every((step, index) => {
    const here = schemaAt(schema, path.slice(0, index + 1)) ?? mistypedAt(schema, path.slice(0, index), step);
    return here !== undefined && aboutOf(here).secret !== true;
  });

/** The schema of the key that was probably meant, unless a secret key is similar, too. */
function mistypedAt(schema: Schema, parent: Path, step: Path[number]): Schema | undefined {
  const around = schemaAt(schema, parent);
  if (around === undefined || typeof step !== "string" || secretByName([step])) return undefined;
  const isSecret = (key: string): boolean => {
    const found = schemaAt(schema, [...parent, key]);
    return found !== undefined && aboutOf(found).secret === true;
  };
  const keys = [...keysOf(around)];
  const near = nearest(step, keys);
  if (near === undefined || isSecret(near) || nearest(step, keys.filter(isSecret)) !== undefined) return undefined;
  return schemaAt(schema, [...parent, near]);
}
