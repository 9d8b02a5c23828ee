import type { Call } from "../core/call.ts";
import type { TryLocks } from "../core/locks.ts";
import type { VolumeFindings } from "../health/finding.ts";
import type { Reason } from "../health/reasons.ts";
import type { Connection } from "./connection.ts";
import { lockKey } from "./handles.ts";

/** Problems that csimux can repair: the data exists, only the export or target is missing. */
const restorable: ReadonlySet<Reason> = new Set<Reason>(["TargetMissing", "ShareMissing"]);

/** The time limit of one round of repairs, in milliseconds; the next one continues. */
const roundMs = 30_000;

/**
 * Restores missing exports and targets: a storage host that was reset without its configuration has everything else. Only for
 * conditions that last (`holds`), since a volume that is being deleted loses its target first. Never throws; the first failure ends the
 * round.
 */
export async function restoreExports(
  { name, driver: { health } }: Connection,
  found: VolumeFindings,
  holds: (id: string, reason: Reason) => boolean,
  locks: TryLocks,
  call: Call,
): Promise<void> {
  if (!health?.restore) return;
  const end = performance.now() + roundMs;
  for (const [id, findings] of found) {
    const lost = findings.find(({ reason }) => restorable.has(reason) && holds(id, reason));
    if (!lost) continue;
    if (performance.now() > end || call.signal.aborted) return;
    const fields = { connection: name, volume: id, reason: lost.reason };
    try {
      // Another driver of the same connection may be deleting the volume, if its file was changed.
      await locks.hold([lockKey({ kind: "volume", connection: name, id })], async () => health.restore?.(id, call));
      call.log.info("restored the missing export or target of a volume", fields);
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      return call.log.warn("cannot restore the missing export or target of a volume", { ...fields, detail });
    }
  }
}
