import { nextStep } from "../../copy/next-step.ts";
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
 * Cancels an unfinished copy and removes its data. If another process works on it, that process reads the mark with its next beat,
 * ends its programs and removes the copy; if it has died, this one does. Resolves when only the record is left, which refuses the next
 * request of a claim. `client` only ends the waiting. Throws "not-found" if there is no copy, and "failed-precondition" for one that is a
 * volume, or becomes one before the process that makes it so has seen the mark.
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
  if (!(await find())) throw new CsiError("not-found", `there is no copy to volume ${volume}`);
  for (;;) {
    const left = await find();
    const step = nextStep("cancel", {
      record: left,
      isVolume: await on(connection => isVolume(connection, target, call)),
      lease: left ? engine.copies.owner(target, left) : "free",
    });
    if (step === "refuse")
      throw new CsiError("failed-precondition", `the copy to volume ${volume} is complete; delete the volume instead`);
    // Once more for a copy that was removed and begun again meanwhile.
    if (step === "mark") await on(connection => marked(connection, target, call));
    else if (step === "wait") await pause(lookMs, AbortSignal.any([client, call.signal]));
    else return left && engine.removal.cancel(target, left, call);
  }
}

/** Marks a copy as cancelled, if it still exists. */
async function marked(connection: Connection, target: Handle, call: Call): Promise<void> {
  try {
    await takingOn(connection).cancel(target.id, call);
  } catch (error) {
    if (!(error instanceof CsiError && error.code === "not-found")) throw error;
  }
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
