import type { DriverFacts } from "../drivers/facts.ts";
import { modules } from "../drivers/index.ts";
import { keysOf } from "../schema/shape.ts";
import type { ConnectionFile } from "./lint-input.ts";

/** The facts of a connection's driver; undefined if the driver does not exist. */
export const factsOf = ({ read }: ConnectionFile): DriverFacts | undefined => read.module?.facts;

/** Whether volumes of the connection exist only on the node that made them. */
export const isLocal = (connection: ConnectionFile): boolean => factsOf(connection)?.local === true;

/** The first connection with volumes on their node, and the first without. */
export function bothKinds(
  all: readonly ConnectionFile[],
): Readonly<Record<"local" | "remote", ConnectionFile | undefined>> {
  const known = all.filter(connection => factsOf(connection)?.provisions);
  return { local: known.find(isLocal), remote: known.find(connection => !isLocal(connection)) };
}

/** Whether some connections need a controller on every node and others one for all nodes. */
export function isMixed(all: readonly ConnectionFile[]): boolean {
  const { local, remote } = bothKinds(all);
  return local !== undefined && remote !== undefined;
}

/** The allowed values of `fsType`; undefined: any. */
export function filesystemsOf(connection: ConnectionFile): readonly string[] | undefined {
  const filesystems = factsOf(connection)?.access.filesystems;
  return filesystems === "any" ? undefined : filesystems;
}

/** Whether nodes see volumes of the connection as disks, and make file systems on them. */
export const isDisk = (connection: ConnectionFile): boolean =>
  factsOf(connection)?.access.kinds.includes("block") === true;

/** Whether `driver:` alone is a complete connection file. */
export const needsNoSection = (driver: string | undefined): boolean =>
  modules.some(({ names, schema }) => names.some(name => name === driver) && [...keysOf(schema)].length === 0);

/** The sections of connection files that belong to drivers. */
export const sections: ReadonlySet<string> = new Set(modules.flatMap(({ schema }) => [...keysOf(schema)]));
