import type { Call } from "../core/call.ts";
import { CsiError, ignoreNotFound } from "../core/errors.ts";
import { encodeHandle, type Handle, parseHandle } from "../core/handle.ts";
import type { Driver } from "../drivers/driver.ts";
import type { CopyCreation } from "./create-volume.ts";
import type { CopyingParts } from "./running-copies.ts";

/** A volume, and whether it becomes read-only ("freeze") or writable again ("thaw"). */
interface Freeze {
  readonly volume: Handle;
  readonly on: boolean;
}

/** No pass can become the volume: `freeze` has not ended, or ended with its process. */
export const noPass = Number.MAX_SAFE_INTEGER;

/**
 * Sets the source of a move to read-only, or back to writable, and notes that in the records of its copies (CopyRecord.frozen). The record says
 * first that no pass counts, so that a process that ends in between leaves nothing that can be finished; then the storage; then the first pass that
 * can begin after it. Nothing else makes a source writable again: only a person knows why its pods were stopped. Throws "failed-precondition" if neither is possible, and "aborted" if another process works on a copy.
 */
export async function freezeSource(
  parts: CopyingParts,
  copying: CopyCreation,
  { volume, on }: Freeze,
  call: Call,
): Promise<{ readonly instead?: string[] }> {
  return parts.connections.use(volume.connection, "retry", async ({ name, driver }) => {
    const { copySource } = driver;
    const targets: Handle[] = [];
    for (const snapshot of (await copySource?.protectedSnapshots(call)) ?? []) {
      const target = parseHandle(snapshot.target, "volume");
      if (target && snapshot.volume === volume.id) targets.push(target);
    }
    const set = async (): Promise<void> => {
      if (on) await disown(driver, volume.id, call);
      if (!copySource?.freeze) return;
      await copySource.freeze(volume.id, on, call);
      const done = on ? "set a volume to read-only" : "set a volume back to writable";
      call.log.info(done, { volume: encodeHandle(volume) });
    };
    const work = targets.reduceRight<() => Promise<boolean>>(
      (next, target) => () => noted(parts, copying, target, { volume, on }, call, next),
      () => set().then(() => false),
    );
    const isNoted = await work();
    if (copySource?.freeze) return {};
    const text = `connection "${name}" cannot set a volume to read-only`;
    if (!isNoted) throw new CsiError("failed-precondition", `${text}, and no copy of it notes that it was stopped`);
    return { instead: [on ? `${text}; it is noted that only a pass from now on may become the new volume` : text] };
  });
}

/**
 * What its claim writes from now on may be on another connection: the claim must not get this volume again by itself, with older data. A person may
 * still bind it, as `csimux move undo` does.
 */
async function disown({ reading, adoption }: Driver, id: string, call: Call): Promise<void> {
  const found = await reading?.get(id, call).catch(ignoreNotFound);
  if (found?.tenure?.claim !== undefined) await adoption?.adopt(id, true, call);
}

/**
 * Runs `work`, which stops the source of a move or lets it be used again, and writes that into the record of a copy; durable when it resolves. Returns
 * whether that or `work` has noted it. A copy that runs in this process notes it afterwards: a pass can begin until then.
 */
async function noted(
  { connections, copies }: CopyingParts,
  copying: CopyCreation,
  target: Handle,
  { volume, on }: Freeze,
  call: Call,
  work: () => Promise<boolean>,
): Promise<boolean> {
  return connections.use(target.connection, "retry", async connection => {
    const running = copies.running(target);
    const record = running?.record ?? (await copying.find(connection, target, call));
    const isOf = record?.role === "move" && record.origin.handle === encodeHandle(volume);
    if (!isOf || record.state === "finished" || record.state === "cancelled") return work();
    if (running) {
      await work();
      await running.freeze(on ? running.record.pass + 1 : undefined);
      return true;
    }
    const place = copying.place(connection, target);
    const [begin, end] = on ? [{ frozen: noPass }, { frozen: record.pass + 1 }] : [{}, { frozen: undefined }];
    const failed = { frozen: record.frozen };
    await copies.withLease({ target, place, record, begin, end, failed }, call, work);
    return true;
  });
}
