import { commonSchema } from "../config/common.ts";
import { readConnectionSource } from "../config/connection.ts";
import { type Defaults, type ReadProxy, readProxySource } from "../config/proxy.ts";
import type { DriverModule } from "../drivers/module.ts";
import type { Path } from "../schema/finding.ts";
import type { Outside } from "../schema/outside.ts";
import { aboutOf, type Schema, schemaAt } from "../schema/shape.ts";
import type { Leaf } from "./leaf.ts";
import { type ConnectionFile, type MainFile, mappingAt, textAt } from "./world.ts";

/** Documents in which a connection or main file was found, before it is read. */
export interface Candidate {
  readonly leaf: Leaf;
  readonly name: string;
  readonly role: "main" | "connection";
  /** The user said that it is the main file. */
  readonly named?: boolean;
}

/** Reads a main file as `serve` would. */
export function mainFile(leaf: Leaf, modules: readonly DriverModule[], outside: Outside): MainFile {
  const read: ReadProxy = readProxySource(leaf.source, outside);
  const schemas = modules.map(({ schema }) => schema);
  // Defaults of connections may hold secrets; what no driver knows may be a mistyped one.
  const isSecret = (whole: Path): boolean => {
    // In Helm values the main file stands under driver.config.
    const path = whole[0] === "driver" && whole[1] === "config" ? whole.slice(2) : whole;
    return path[0] !== "driver" && path[0] !== "proxy" && !schemas.some(schema => isPlain(schema, path));
  };
  return { leaf: { ...leaf, isSecret }, read, proxy: mappingAt(leaf.source.value, "proxy") };
}

/** Reads a connection as `serve` would. */
export function connectionFile(
  { leaf, name }: Candidate,
  defaults: Defaults,
  modules: readonly DriverModule[],
  outside: Outside,
): ConnectionFile {
  const read = readConnectionSource(name, leaf.source, defaults, outside, modules);
  const driver = textAt(leaf.source.value, "driver") ?? "";
  const schemas = [commonSchema, ...(read.module ? [read.module.schema] : [])];
  const isSecret = (path: Path): boolean => !schemas.some(schema => isPlain(schema, path));
  return { leaf: { ...leaf, isSecret }, name, read, driver };
}

/** Whether the schema knows the key and neither it nor what is around it is secret. Anything else may be a mistyped secret. */
const isPlain = (schema: Schema, path: Path): boolean =>
  path.length > 0 &&
  path.every((_, index) => {
    const here = schemaAt(schema, path.slice(0, index + 1));
    return here !== undefined && aboutOf(here).secret !== true;
  });
