import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { encodeHandle, type Handle, parseHandle } from "../core/handle.ts";
import type { CopyCreation } from "./create-volume.ts";
import type { CopyingParts } from "./running-copies.ts";

/** A volume, and whether it becomes read-only ("freeze") or writable again ("thaw"). */
interface Freeze {
  readonly volume: Handle;
  readonly on: boolean;
}

/**
 * Sets the source of a move to read-only, or back to writable, and notes that in the records of its copies (CopyRecord.frozen). The storage
 * comes first: a pass counts as one after the stop only if nothing could be written when it began. Throws "failed-precondition" if neither
 * is possible, and "aborted" if another process works on a copy.
 */
export async function freezeSource(
  parts: CopyingParts,
  copying: CopyCreation,
  { volume, on }: Freeze,
  call: Call,
): Promise<{ readonly instead?: string[] }> {
  return parts.connections.use(volume.connection, "retry", async ({ name, driver: { copySource } }) => {
    if (copySource?.freeze) {
      await copySource.freeze(volume.id, on, call);
      const done = on ? "set a volume to read-only" : "set a volume back to writable";
      call.log.info(done, { volume: encodeHandle(volume) });
    }
    let isNoted = false;
    for (const snapshot of (await copySource?.protectedSnapshots(call)) ?? []) {
      const target = parseHandle(snapshot.target, "volume");
      if (target && snapshot.volume === volume.id)
        isNoted = (await note(parts, copying, target, { volume, on }, call)) || isNoted;
    }
    if (copySource?.freeze) return {};
    const text = `connection "${name}" cannot set a volume to read-only`;
    if (!isNoted) throw new CsiError("failed-precondition", `${text}, and no copy of it notes that it was stopped`);
    return { instead: [on ? `${text}; it is noted that only a pass from now on may become the new volume` : text] };
  });
}

/** Writes into the record of a move that its source was stopped, or is in use again; durable when it resolves. Returns false without one. */
async function note(
  { connections, copies }: CopyingParts,
  copying: CopyCreation,
  target: Handle,
  { volume, on }: Freeze,
  call: Call,
): Promise<boolean> {
  return connections.use(target.connection, "retry", async connection => {
    const running = copies.running(target);
    const record = running?.record ?? (await copying.find(connection, target, call));
    const isOf = record?.role === "move" && record.origin.handle === encodeHandle(volume);
    if (!isOf || record.state === "finished" || record.state === "cancelled") return false;
    const frozen = on ? record.pass + 1 : undefined;
    const place = copying.place(connection, target);
    if (running) await running.freeze(frozen);
    else await copies.withLease({ target, place, record, begin: { frozen } }, call, async () => {});
    return true;
  });
}
