import { readConnectionSource } from "../config/connection.ts";
import { type Defaults, type ReadProxy, readProxySource } from "../config/proxy.ts";
import { readSingle } from "../config/single.ts";
import type { DriverModule } from "../drivers/module.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import type { SourceDocument } from "./document.ts";
import { type ConnectionFile, type MainDocument, mappingAt, textAt } from "./lint-input.ts";

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
  return { document, read, proxy: mappingAt(document.source.value, "proxy") };
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
  return { document, name, read, driver };
}
