import type { CopyRecord } from "../../copy/record.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { encodeHandle, type Handle } from "../../core/handle.ts";
import { pause } from "../../core/time.ts";
import type { Connection } from "../connection.ts";
import { ability } from "../placement.ts";
import type { Copying } from "./copying.ts";
import { takingOn } from "./ends.ts";
import type { CopyingParts } from "./parts.ts";

/** The interval of checks whether another process has ended the copy, in milliseconds. */
const lookMs = 1_000;

/**
 * Cancels an unfinished copy and removes its data. If another process works on it, that process reads the cancellation with its next beat,
 * ends its programs and removes the copy; if it has died, this one does. Resolves when only the record is left, which refuses the next
 * request of a claim. `client` only ends the waiting. Throws "not-found" if there is no copy, and "failed-precondition" for one that is a
 * volume, or becomes one before the process that makes it so has seen the cancellation.
 */
export async function cancelCopy(
  parts: CopyingParts,
  copying: Copying,
  target: Handle,
  client: AbortSignal,
  call: Call,
): Promise<void> {
  const { engine } = parts;
  const volume = encodeHandle(target);
  const on = <T>(work: (connection: Connection) => Promise<T>): Promise<T> =>
    parts.connections.use(target.connection, "retry", work);
  const find = (): Promise<CopyRecord | undefined> =>
    on(async connection => (await copying.find(connection, takingOn(connection), target, call))?.record);
  const running = engine.copies.running(target);
  running?.stop(new CsiError("aborted", `the copy to volume ${volume} was cancelled`));
  await running?.done;
  const record = await find();
  if (!record) throw new CsiError("not-found", `there is no copy to volume ${volume}`);
  const refuseComplete = async (present: CopyRecord | undefined): Promise<void> => {
    if (present?.state !== "finished" && !(await on(connection => isVolume(connection, target, call)))) return;
    const text = `the copy to volume ${volume} is complete; delete the volume instead`;
    throw new CsiError("failed-precondition", text);
  };
  await refuseComplete(record);
  const cancel = (present: CopyRecord): Promise<void> => {
    const text = engine.text.write({ ...present, state: "cancelled", asked: Math.floor(Date.now() / 1_000) });
    return on(async connection => takingOn(connection).note(target.id, text, call));
  };
  await cancel(record);
  for (;;) {
    const left = await find();
    // A write of the owner, or of a process that makes it the volume, has replaced the cancellation.
    if (left && isReplaced(left, record)) await cancel(left);
    else if (left?.state !== "cancelled") return refuseComplete(left);
    // The other process has removed it.
    else if (left.owner === "" && record.owner !== "") return;
    else if (engine.copies.owner(target, left) !== "taken") return engine.removal.cancel(target, left, call);
    await pause(lookMs, AbortSignal.any([client, call.signal]));
  }
}

/** Whether a process that had read `record` has written `left`. */
function isReplaced(left: CopyRecord, record: CopyRecord): boolean {
  if (left.state === "copying") return left.owner === record.owner && left.beat > record.beat;
  return left.state === "ready" && left.owner !== "" && left.taken === record.taken && left.beat > record.beat;
}

/** Whether a landing has become the volume already; its record may not say so yet. */
async function isVolume(connection: Connection, target: Handle, call: Call): Promise<boolean> {
  try {
    await ability(connection, "reading").get(target.id, call);
    return true;
  } catch (error) {
    if (error instanceof CsiError && error.code === "not-found") return false;
    throw error;
  }
}
