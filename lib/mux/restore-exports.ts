import type { Call } from "../core/call.ts";
import type { VolumeFindings } from "../health/finding.ts";
import type { Reason } from "../health/reasons.ts";
import type { Connection } from "./connection.ts";

/** What can be wrong with the way to a volume and be made anew: its content is there. */
const mendable: ReadonlySet<Reason> = new Set<Reason>(["TargetMissing", "ShareMissing"]);

/** How long one round of mending may take, in milliseconds; the next one goes on. */
const roundMs = 30_000;

/**
 * Has a driver make anew what leads to volumes and is lost: a storage host that began anew without its configuration has everything
 * but its targets. Only for what has lasted (`holds`), since a volume that is being deleted loses its target first. Never throws; the
 * first failure ends the round.
 */
export async function restoreExports(
  { name, driver: { health } }: Connection,
  found: VolumeFindings,
  holds: (id: string, reason: Reason) => boolean,
  call: Call,
): Promise<void> {
  if (!health?.restore) return;
  const end = performance.now() + roundMs;
  for (const [id, findings] of found) {
    const lost = findings.find(({ reason }) => mendable.has(reason) && holds(id, reason));
    if (!lost) continue;
    if (performance.now() > end || call.signal.aborted) return;
    const fields = { connection: name, volume: id, reason: lost.reason };
    try {
      await health.restore(id, call);
      call.log.info("what leads to a volume was made anew", fields);
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      return void call.log.warn("what leads to a volume could not be made anew", { ...fields, detail });
    }
  }
}
