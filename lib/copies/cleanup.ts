import type { Call } from "../core/call.ts";
import { CsiError, detailOf, ignoreNotFound, isFinal, messageOf } from "../core/errors.ts";
import { encodeHandle, type Handle, parseHandle } from "../core/handle.ts";
import { mapLimit } from "../core/semaphore.ts";
import { pause, TimeLimit, unlessAborted } from "../core/time.ts";
import type { ProtectedSnapshot, StoredCopy } from "../drivers/copying.ts";
import type { Driver } from "../drivers/driver.ts";
import type { Connection } from "../mux/connection.ts";
import { ability } from "../mux/placement.ts";
import { connectionsAtOnce } from "../mux/storage-calls.ts";
import type { UseDriver } from "./copy-work.ts";
import { type CopyCreation, isVolume } from "./create-volume.ts";
import { seconds } from "./lease.ts";
import { nextStep } from "./next-step.ts";
import { type CopyRecord, recordOf } from "./record.ts";
import { CopyRemoval } from "./removal.ts";
import type { CopyingParts, RunningCopies } from "./running-copies.ts";

/** How long the target of a move is kept after its last request, in seconds: a move may take days. */
const moveSeconds = 30 * 86_400;

/** How long the record of a cancelled copy is kept to refuse the next request, in seconds: longer than any pause of external-provisioner. */
const cancelledSeconds = 3_600;

/** The interval between two clean-ups, in milliseconds. */
export const cleanUpMs = 3_600_000;

/** How long one call to a connection may delay the rest of its clean-up, in milliseconds. */
const answerMs = 60_000;

/** The parts that the hourly clean-up uses. */
export interface CleanUpParts {
  readonly copies: RunningCopies;
  readonly use: UseDriver;
  /** The names of all connections. */
  readonly names: () => Promise<readonly string[]>;
  /** The limit of one call in milliseconds; a minute if absent. */
  readonly limitMs?: number;
}

/**
 * Removes the remains of abandoned copies: targets without recent requests, and the protection of snapshots whose copy no longer exists. Keeps
 * everything in doubt: a record that cannot be read, a snapshot whose target does not answer. Logs every removal.
 */
export class CleanUp {
  readonly #parts: CleanUpParts;
  readonly #use: UseDriver;
  readonly #removal: CopyRemoval;

  constructor(parts: CleanUpParts) {
    this.#parts = parts;
    // A call to a dead mount cannot be aborted: a connection that hangs gets no further ones until it has answered.
    const limit = new TimeLimit(parts.limitMs ?? answerMs);
    this.#use = (name, work) => {
      const late = () => new CsiError("unavailable", `connection "${name}" has not answered`);
      return limit.ask(name, () => parts.use(name, work), late);
    };
    this.#removal = new CopyRemoval(this.#use);
  }

  /** Checks all connections once, with one listing each. Throws only if the folder of connections cannot be read. */
  async run(call: Call): Promise<void> {
    await mapLimit(await this.#parts.names(), connectionsAtOnce, async name => {
      const copies = async ({ copyTarget }: Driver) => copyTarget?.copies(call);
      await this.#each(name, copies, stored => this.#stored(name, stored, call), call);
      const snapshots = async ({ copySource }: Driver) => copySource?.protectedSnapshots(call);
      await this.#each(name, snapshots, snapshot => this.#snapshot(name, snapshot, call), call);
    });
  }

  /** Lists what is on a connection, and works on each. The next clean-up repeats what fails, whatever the reason. */
  async #each<T>(
    connection: string,
    list: (driver: Driver) => Promise<readonly T[] | undefined>,
    work: (item: T) => Promise<void>,
    call: Call,
  ): Promise<void> {
    const failed = (error: unknown): undefined => {
      const text = "what copies have left on a connection cannot be removed";
      if (isFinal(error)) call.log.warn(text, { connection, reason: detailOf(error) });
      else call.log.debug(text, { connection, reason: messageOf(error) });
    };
    for (const item of (await this.#use(connection, list).catch(failed)) ?? [])
      if (!call.signal.aborted) await work(item).catch(failed);
  }

  async #stored(connection: string, stored: StoredCopy, call: Call): Promise<void> {
    const target: Handle = { kind: "volume", connection, id: stored.id };
    const { copies } = this.#parts;
    if (copies.running(target)) return;
    await copies.identify();
    const record = recordOf(stored, `volume ${encodeHandle(target)}`);
    // By the wall clock, which alone outlives a restart: set wrongly ahead, it makes paused copies unwanted.
    const isWanted = seconds() - record.asked <= this.#keptSeconds(record);
    const isMade = await this.#use(connection, driver => isVolume(driver, target, call));
    const lease = copies.observeLease(target, record);
    const step = nextStep("clean-up", { record, isVolume: isMade, hasContent: true, lease, isWanted });
    if (step === "forget") return this.#removal.forgetFinished(target, record, call);
    if (step === "nothing") return;
    // The listing may be minutes old; a request may have arrived since.
    const now = await this.#use(connection, async ({ copyTarget }) => copyTarget?.find(stored.id, call));
    if (now?.record === stored.record && copies.observeLease(target, record) !== "held")
      await this.#removal.remove(target, record, call);
  }

  #keptSeconds({ state, role }: CopyRecord): number {
    if (state === "cancelled") return cancelledSeconds;
    return role === "move" ? moveSeconds : this.#parts.copies.settings().keepSeconds;
  }

  /** Ends the protection of a snapshot if the target's connection answers that there is no record of the copy. */
  async #snapshot(connection: string, { target: text, since }: ProtectedSnapshot, call: Call): Promise<void> {
    const { copies } = this.#parts;
    if (seconds() - since <= copies.settings().keepSeconds) return;
    const target = parseHandle(text, "volume");
    if (!target || copies.running(target)) return;
    const isNeeded = await this.#use(target.connection, async ({ copyTarget }) =>
      copyTarget ? (await copyTarget.find(target.id, call)) !== undefined : true,
    );
    if (isNeeded) return;
    await this.#use(connection, async ({ copySource }) => copySource?.release(text, undefined, call));
    call.log.info("released a source whose copy no longer exists", { connection, volume: text });
  }
}

/** The interval of checks whether another process has ended the copy, in milliseconds. */
const lookMs = 1_000;

/**
 * Cancels an unfinished copy and removes its data. The mark comes first: whatever hangs, each process learns of it. One that
 * works on the copy reads the mark with its next heartbeat, ends its programs and removes the copy; if it has died, this one
 * does. Resolves when only the record is left, which refuses the next
 * request of a claim. `client` only ends the waiting. Throws "not-found" if there is no copy, and "failed-precondition" for one that is a
 * volume, or becomes one before the process that makes it so has seen the mark.
 */
export async function cancelCopy(
  parts: CopyingParts,
  copying: CopyCreation,
  target: Handle,
  client: AbortSignal,
  call: Call,
): Promise<{ readonly target: string }> {
  const { copies, removal } = parts;
  const volume = encodeHandle(target);
  const on = <T>(work: (connection: Connection) => Promise<T>): Promise<T> =>
    parts.connections.use(target.connection, "retry", work);
  const find = () => on(connection => copying.find(connection, target, call));
  const ended = AbortSignal.any([client, call.signal]);
  let isKnown = false;
  for (;;) {
    const left = await find();
    isKnown ||= left !== undefined;
    if (!isKnown) throw new CsiError("not-found", `there is no copy to volume ${volume}`);
    const step = nextStep("cancel", await on(connection => copying.known(connection, target, left, call)));
    if (step === "refuse")
      throw new CsiError("failed-precondition", `the copy to volume ${volume} is complete; delete the volume instead`);
    // Once more for a copy that was removed and begun again meanwhile.
    if (step === "mark")
      await on(connection => ability(connection, "copyTarget").markCancelled(target.id, call)).catch(ignoreNotFound);
    else if (step === "wait") {
      const running = copies.running(target);
      running?.stop(new CsiError("aborted", `the copy to volume ${volume} was cancelled`));
      await (running ? unlessAborted(running.done, ended, () => ended.reason) : pause(lookMs, ended));
    } else {
      if (left) await removal.removeCancelled(target, left, call);
      return { target: volume };
    }
  }
}

/**
 * Prepares the deletion of a volume: removes its target, or the record of its copy, and ends the protection of the source. Throws
 * "aborted" if another process copies it.
 */
export async function beforeDelete(
  { calls, copies, removal }: CopyingParts,
  copying: CopyCreation,
  connection: Connection,
  target: Handle,
  call: Call,
): Promise<void> {
  // Nearly all volumes have no record. A storage that cannot be seen is one for the deletion to refuse.
  const mayHave = connection.driver.copyTarget?.mayHave;
  if (mayHave && !(await calls.make(connection, () => mayHave(target.id, call)))) return;
  const record = await copying.find(connection, target, call);
  if (!record) return;
  const step = nextStep("delete", await copying.known(connection, target, record, call));
  if (step === "wait") throw copies.whyHeld(target, record);
  if (step === "forget") await removal.forgetDeleted(target, record, call);
  else await removal.remove(target, record, call);
}
