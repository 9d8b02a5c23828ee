import type { Condition } from "../health/condition-tracker.ts";
import { reasonText, type Severity, type Subject } from "../health/reasons.ts";
import type { RouterView } from "../mux/overview.ts";

/** A node's findings about its volumes and storage systems. */
export interface NodeHealthView {
  readonly volumes: readonly { readonly volume: string; readonly conditions: readonly Condition[] }[];
  readonly storages: readonly { readonly storage: string; readonly conditions: readonly Condition[] }[];
}

/** One active condition. */
export interface HealthStatus {
  readonly seenBy: "controller" | "node";
  readonly of: Subject;
  /** Undefined for a node's finding about a storage system. */
  readonly connection?: string | undefined;
  /** The volume's handle; undefined for a condition of a storage system. */
  readonly volume?: string | undefined;
  /** A storage system as nodes identify it, such as "nfs nas.example.org". */
  readonly storage?: string | undefined;
  readonly reason: string;
  readonly severity: Severity;
  readonly message: string;
  /** An RFC 3339 timestamp. */
  readonly since: string;
}

function reported(conditions: readonly Condition[], about: Pick<HealthStatus, "connection" | "volume" | "storage">) {
  return conditions.map(({ reason, message, ms }): HealthStatus => {
    const { observer: seenBy, of, severity } = reasonText(reason);
    return { seenBy, of, ...about, reason, severity, message, since: new Date(Date.now() - ms).toISOString() };
  });
}

/** All active conditions; `connectionOf` parses a handle. */
export function healthOf(
  mux: RouterView | undefined,
  node: NodeHealthView | undefined,
  connectionOf: (volume: string) => string | undefined,
): readonly HealthStatus[] {
  const controllers = (mux?.connections ?? []).flatMap(({ name: connection, health }) => [
    ...reported(health.conditions, { connection }),
    ...health.volumes.flatMap(({ volume, conditions }) => reported(conditions, { connection, volume })),
  ]);
  const storages = (node?.storages ?? []).flatMap(({ storage, conditions }) => reported(conditions, { storage }));
  const volumes = (node?.volumes ?? []).flatMap(({ volume, conditions }) =>
    reported(conditions, { connection: connectionOf(volume), volume }),
  );
  return [...controllers, ...storages, ...volumes];
}
