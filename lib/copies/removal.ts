import type { Call } from "../core/call.ts";
import { detailOf, ignoreNotFound } from "../core/errors.ts";
import { encodeHandle, type Handle, parseHandle } from "../core/handle.ts";
import { copySourceOf, placeOf, type UseDriver } from "./copy-work.ts";
import { seconds } from "./lease.ts";
import { type CopyRecord, replaceRecord } from "./record.ts";

/**
 * Removes targets, records, and the protection of sources. For callers that `nextStep` does not tell to wait: no process holds the lease. One whose
 * lease has expired may only have been suspended and write again, which reaches neither a later target nor a volume: drivers rename a
 * folder before they remove it, a dataset that a program still receives is busy, and the process itself ends with its next write to the record.
 */
export class CopyRemoval {
  readonly #use: UseDriver;

  constructor(use: UseDriver) {
    this.#use = use;
  }

  /** Removes a target, then ends the protection of its source; if that fails, the hourly clean-up repeats it. Throws if the target cannot be removed. */
  async remove(target: Handle, record: CopyRecord, call: Call): Promise<void> {
    await placeOf(this.#use, target).use(copyTarget => copyTarget.drop(target.id, call));
    call.log.info("removed an unfinished copy", { volume: encodeHandle(target), source: record.origin.handle });
    await this.#released(target, record, call);
  }

  /**
   * Removes a copy that is marked as cancelled. The record of a claim's copy stays without a holder: it refuses the next request to any
   * process, which then removes it. Throws if the target cannot be removed.
   */
  async removeCancelled(target: Handle, record: CopyRecord, call: Call): Promise<void> {
    if (record.role === "move") return this.remove(target, record, call);
    const place = placeOf(this.#use, target);
    await place.use(copyTarget => copyTarget.empty(target.id, call));
    const ended = { ...record, state: "cancelled", holder: "", asked: seconds() } as const;
    // The record refused a request that arrived meanwhile, which removed it.
    await replaceRecord(place, ended, call).catch(ignoreNotFound);
    call.log.info("removed a cancelled copy", { volume: place.target, source: record.origin.handle });
    await this.#released(target, record, call);
  }

  /** Like `removeCancelled`. Returns false if the copy cannot be removed now; the next request or the hourly clean-up then removes it. */
  async tryRemoveCancelled(target: Handle, record: CopyRecord, call: Call): Promise<boolean> {
    let isRemoved = false;
    await this.#try("a cancelled copy could not be removed yet", target, call, async () => {
      await this.removeCancelled(target, record, call);
      isRemoved = true;
    });
    return isRemoved;
  }

  /** Ends the protection of a finished copy's source, then removes its record. The hourly clean-up repeats what fails. */
  async forgetFinished(target: Handle, record: CopyRecord, call: Call): Promise<void> {
    await this.#try("the source of a finished copy could not be released yet", target, call, async () => {
      await this.release(target, record, call);
      await placeOf(this.#use, target).use(copyTarget => copyTarget.forget(target.id, call));
    });
  }

  /** The same for a volume that will be deleted: the record goes in any case, and the hourly clean-up ends a protection that is left. Throws if it cannot be removed. */
  async forgetDeleted(target: Handle, record: CopyRecord, call: Call): Promise<void> {
    await this.#try("the source of a finished copy could not be released yet", target, call, () =>
      this.release(target, record, call),
    );
    await placeOf(this.#use, target).use(copyTarget => copyTarget.forget(target.id, call));
  }

  /** Ends the protection of the snapshots of a copy. */
  async release(target: Handle, { origin }: Pick<CopyRecord, "origin">, call: Call): Promise<void> {
    const source = parseHandle(origin.handle, origin.kind);
    if (!source) return;
    const volume = encodeHandle(target);
    await this.#use(source.connection, driver =>
      copySourceOf(driver, source.connection).release(volume, undefined, call),
    );
    call.log.info("released the source of a copy", { volume, source: origin.handle });
  }

  #released(target: Handle, record: CopyRecord, call: Call): Promise<void> {
    const text = "the source of a removed copy could not be released yet";
    return this.#try(text, target, call, () => this.release(target, record, call));
  }

  async #try(text: string, target: Handle, call: Call, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      call.log.warn(text, { volume: encodeHandle(target), reason: detailOf(error) });
    }
  }
}
