import type { Call } from "../core/call.ts";
import type { StillHeld } from "../drivers/copying.ts";
import type { Volume } from "../drivers/driver.ts";
import type { CopyRequest } from "./begin.ts";
import { retried } from "./copy-work.ts";
import { seconds } from "./lease.ts";
import { assurance, type CopyRecord, type RecordPlace } from "./record.ts";
import type { CopyingParts } from "./running-copies.ts";

/**
 * Makes the target of a complete copy the volume, as the holder of its lease: two processes that have read the same record do not do it at
 * once, `freeze` is refused meanwhile, and a cancellation stops it or is too late. Throws "aborted" if another process is
 * the holder, the record is no longer as the caller has read it, or the copy was cancelled.
 */
export async function finishCopy(
  { copies, removal }: CopyingParts,
  place: RecordPlace,
  { target, spec }: Pick<CopyRequest, "target" | "spec">,
  record: CopyRecord,
  call: Call,
): Promise<Volume> {
  // Noted although this may fail: the clean-up must not take a complete copy for forgotten while its claim asks for it.
  const begin = { asked: seconds() };
  const end = { state: "finished", fault: "" } as const;
  const made: Volume[] = [];
  const work = async (own: Call, stillHeld: StillHeld): Promise<void> => {
    made.push(await place.use(to => to.finish(target.id, spec, record.snapshot, stillHeld, own)));
  };
  const error: unknown = await copies.withLease({ target, place, record, begin, end }, call, work).catch(why => why);
  const [volume] = made;
  // The next request, or the clean-up, sees what is left: a copy that was cancelled meanwhile is removed then.
  if (!volume) throw retried(error);
  // Even if its record could not be written or was marked as cancelled at the last moment: it is the volume, and the record is removed now.
  call.log.info(`volume "${spec.name}" is complete: ${assurance(record)}`, {
    ...{ volume: place.target, source: spec.origin.handle, snapshot: record.snapshot.name },
    ...(record.snapshot.proof && { proof: record.snapshot.proof }),
  });
  copies.afterwards(removal.forgetFinished(target, record, call));
  return volume;
}
