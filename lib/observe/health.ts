import { meaningOf, type Severity, type Subject } from "../health/reasons.ts";
import type { Condition } from "../health/steady.ts";
import type { MuxView } from "../mux/overview.ts";

/** What a node sees of its volumes and storages. */
export interface NodeHealthView {
  readonly volumes: readonly { readonly volume: string; readonly conditions: readonly Condition[] }[];
  readonly storages: readonly { readonly storage: string; readonly conditions: readonly Condition[] }[];
}

/** One thing that is wrong. */
export interface HealthStatus {
  readonly seenBy: "controller" | "node";
  readonly of: Subject;
  /** Undefined for what a node sees of a storage. */
  readonly connection?: string | undefined;
  /** Its handle; undefined for what concerns a connection or a storage as a whole. */
  readonly volume?: string | undefined;
  /** A storage as nodes know it, such as "nfs nas.example.org". */
  readonly storage?: string | undefined;
  readonly reason: string;
  readonly severity: Severity;
  readonly message: string;
  /** As RFC 3339 has it. */
  readonly since: string;
}

function told(conditions: readonly Condition[], about: Pick<HealthStatus, "connection" | "volume" | "storage">) {
  return conditions.map(({ reason, message, ms }): HealthStatus => {
    const { seer: seenBy, of, severity } = meaningOf(reason);
    return { seenBy, of, ...about, reason, severity, message, since: new Date(Date.now() - ms).toISOString() };
  });
}

/** All that is known to be wrong at this moment; `connectionOf` reads a handle. */
export function healthOf(
  mux: MuxView | undefined,
  node: NodeHealthView | undefined,
  connectionOf: (volume: string) => string | undefined,
): readonly HealthStatus[] {
  const controllers = (mux?.connections ?? []).flatMap(({ name: connection, health }) => [
    ...told(health.conditions, { connection }),
    ...health.volumes.flatMap(({ volume, conditions }) => told(conditions, { connection, volume })),
  ]);
  const storages = (node?.storages ?? []).flatMap(({ storage, conditions }) => told(conditions, { storage }));
  const volumes = (node?.volumes ?? []).flatMap(({ volume, conditions }) =>
    told(conditions, { connection: connectionOf(volume), volume }),
  );
  return [...controllers, ...storages, ...volumes];
}
