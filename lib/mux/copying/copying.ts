import type { CopyWork } from "../../copy/copy-work.ts";
import { nextStep } from "../../copy/next-step.ts";
import type { OneCopy } from "../../copy/one-copy.ts";
import type { CopyRecord } from "../../copy/record.ts";
import type { Call } from "../../core/call.ts";
import { CsiError, isFinal } from "../../core/errors.ts";
import { encodeHandle, type Handle } from "../../core/handle.ts";
import { within } from "../../core/time.ts";
import type { CopySpec, TakingAbility } from "../../drivers/copying.ts";
import type { Volume } from "../../drivers/driver.ts";
import type { Connection } from "../connection.ts";
import { CopyAdmission, type CopyRequest, refuseOther, waysOf } from "./admission.ts";
import { assurance, elsewhere, sourceOf, takingOn, targetOf, whyEnded } from "./ends.ts";
import type { CopyingParts } from "./parts.ts";
import { forbids, type WayChoice } from "./ways.ts";

/** A landing with its parsed record. */
export interface KnownLanding {
  readonly target: Handle;
  readonly record: CopyRecord;
}

/**
 * Handles requests for volumes with the content of another connection. A request begins a copy or joins it and waits a few seconds; if the
 * copy takes longer, the answer is "aborted" with the progress. Only a request makes a complete landing the volume.
 */
export class Copying {
  readonly #parts: CopyingParts;
  readonly #admission: CopyAdmission;
  /** The copies whose landing is being made the volume. */
  readonly #becoming = new Set<string>();
  /** Work that continues after an answer. */
  readonly #after = new Set<Promise<void>>();

  constructor(parts: CopyingParts) {
    this.#parts = parts;
    const { engine, calls, connections } = parts;
    this.#admission = new CopyAdmission({ calls, connections, text: engine.text, settings: engine.copies.settings });
  }

  /** Throws "aborted" if the object is source or target of a copy that runs here. Synchronous, for callers that hold its lock. */
  refuseBusy(handle: Handle): void {
    const why = this.#parts.engine.copies.busy(handle);
    if (why !== undefined) throw new CsiError("aborted", `${encodeHandle(handle)} cannot be changed now: ${why}`);
  }

  /** The ways from a source to a connection. Throws "unavailable" if the source's connection cannot be used. */
  ways(source: Handle, to: Connection): Promise<WayChoice> {
    const settings = this.#parts.engine.copies.settings();
    return this.#parts.connections.use(source.connection, "retry", async from =>
      waysOf(from, to, source.kind, settings),
    );
  }

  /** The landing of a name, or undefined. Throws "failed-precondition" if its record cannot be used. */
  async landing(connection: Connection, name: string, call: Call): Promise<KnownLanding | undefined> {
    const { taking } = connection.driver;
    return taking && this.find(connection, taking, targetOf(connection, taking, name), call);
  }

  /** Whether there is a landing of this request, or its finished volume. Throws "already-exists" for a volume of another request. */
  async hasBegun(connection: Connection, spec: CopySpec, call: Call): Promise<boolean> {
    const taking = takingOn(connection);
    if (await this.landing(connection, spec.name, call)) return true;
    return (await this.#parts.calls.make(connection, () => taking.existing(spec, call))) !== undefined;
  }

  /** The landing of a volume's id, or undefined. */
  async find(
    connection: Connection,
    taking: TakingAbility,
    target: Handle,
    call: Call,
  ): Promise<KnownLanding | undefined> {
    const { calls, engine } = this.#parts;
    const landing = await calls.make(connection, () => taking.find(target.id, call));
    return landing && { target, record: engine.text.read(landing, `volume ${encodeHandle(target)}`) };
  }

  /** CreateVolume with a source on another connection. The caller holds the locks of volume and source. */
  async create(connection: Connection, source: Handle, spec: CopySpec, call: Call): Promise<Volume> {
    const end = performance.now() + this.#parts.engine.copies.times.ask;
    const taking = takingOn(connection);
    const target = targetOf(connection, taking, spec.name);
    const request: CopyRequest = { target, source, spec, role: "create" };
    const copy = await this.#join(connection, taking, request, call);
    if (copy.kind === "volume") return copy.volume;
    if (copy.kind === "ready") return this.land(connection, taking, request, copy.record, call);
    await within(copy.running.done, Math.max(0, end - performance.now()));
    return this.#answer(connection, taking, request, copy.running, call);
  }

  /** Makes the landing of a complete copy the volume. Throws "failed-precondition" if the copy was cancelled. */
  async land(
    connection: Connection,
    taking: TakingAbility,
    { target, spec }: Pick<CopyRequest, "target" | "spec">,
    record: CopyRecord,
    call: Call,
  ): Promise<Volume> {
    const { engine } = this.#parts;
    const handle = encodeHandle(target);
    if (this.#becoming.has(handle) || engine.copies.owner(target, record) === "taken") throw elsewhere(target);
    this.#becoming.add(handle);
    const work = this.#become(connection, taking, { target, spec }, record, call);
    const volume = await work.finally(() => this.#becoming.delete(handle));
    if (volume) return volume;
    throw whyEnded(record);
  }

  /** Returns undefined, and removes what is left, if the copy was cancelled before it became the volume. */
  async #become(
    connection: Connection,
    taking: TakingAbility,
    { target, spec }: Pick<CopyRequest, "target" | "spec">,
    record: CopyRecord,
    call: Call,
  ): Promise<Volume | undefined> {
    const { calls, engine } = this.#parts;
    try {
      const isOwn = await this.#own(connection, taking, target, record, call);
      const land = isOwn && calls.make(connection, () => taking.land(target.id, spec, record.moment, call));
      const volume =
        land &&
        (await land.catch(async (error: unknown) => {
          if (await calls.make(connection, () => taking.hasContent(target.id, call))) throw error;
        }));
      if (!volume) return void (await engine.removal.remove(target, record, call));
      const text = engine.text.write({ ...record, state: "finished", owner: "", fault: "" });
      await calls.make(connection, () => taking.note(target.id, text, call));
      call.log.info(`volume "${spec.name}" is complete: ${assurance(record)}`, {
        ...{ volume: encodeHandle(target), source: spec.origin.handle, moment: record.moment.name },
        ...(record.moment.proof && { proof: record.moment.proof }),
      });
      this.#afterwards(engine.removal.settle(target, record, call));
      return volume;
    } catch (error) {
      // The record still exists, so the code must make the caller retry, whatever the reason.
      if (!isFinal(error) || !(error instanceof Error)) throw error;
      throw new CsiError("unavailable", error.message, { cause: error });
    }
  }

  /**
   * Becomes the owner, which `cancelCopy` then waits for. Of two processes, the one that wrote the record last continues. Returns false if
   * the copy was cancelled meanwhile. Throws "aborted" if the record is no longer as the caller has read it.
   */
  async #own(
    connection: Connection,
    taking: TakingAbility,
    target: Handle,
    record: CopyRecord,
    call: Call,
  ): Promise<boolean> {
    const { calls, engine } = this.#parts;
    const { self } = engine.copies;
    const before = (await this.find(connection, taking, target, call))?.record;
    if (before?.state !== record.state || before.owner !== record.owner || before.beat !== record.beat)
      throw elsewhere(target);
    const text = engine.text.write({ ...record, owner: self, beat: record.beat + 1 });
    await calls.make(connection, () => taking.note(target.id, text, call));
    const now = await this.find(connection, taking, target, call);
    if (now?.record.owner !== self) throw elsewhere(target);
    return now.record.state !== "cancelled";
  }

  /** Begins a copy for `csimux move`, or finds it; nothing is copied yet. */
  async begin(connection: Connection, source: Handle, spec: CopySpec, call: Call): Promise<KnownLanding> {
    const taking = takingOn(connection);
    const target = targetOf(connection, taking, spec.name);
    const request: CopyRequest = { target, source, spec, role: "move" };
    const known = await this.find(connection, taking, target, call);
    if (!known && (await this.#parts.calls.make(connection, () => taking.existing(spec, call))))
      throw new CsiError("already-exists", `volume "${spec.name}" exists already, and is complete`);
    const record = known?.record ?? (await this.#admission.begin(request, connection, taking, call));
    refuseOther(record, request);
    return { target, record };
  }

  /**
   * Prepares the deletion of a volume: removes its landing, or the record of its copy, and ends the protection of the source. Throws
   * "aborted" if another process copies it.
   */
  async beforeDelete(connection: Connection, target: Handle, call: Call): Promise<void> {
    const { taking } = connection.driver;
    const record = taking && (await this.find(connection, taking, target, call))?.record;
    if (!record) return;
    const { copies, removal } = this.#parts.engine;
    const step = nextStep("delete", { record, lease: copies.owner(target, record) });
    if (step === "wait") throw elsewhere(target);
    if (step === "release") return removal.forget(target, record, call);
    try {
      await removal.remove(target, record, call);
    } catch (error) {
      // The landing became the volume, but its process ended before it wrote that into the record.
      if (!(error instanceof CsiError && error.code === "failed-precondition")) throw error;
      await removal.forget(target, record, call);
    }
  }

  /**
   * Ends a copy that the settings no longer allow, and throws "failed-precondition". Removes the copy of a claim, because after a final error
   * nothing may be left; a move keeps its progress. A source without a valid file forbids nothing.
   */
  async refuseForbidden(to: Connection, target: Handle, record: CopyRecord, call: Call): Promise<void> {
    const { connections, engine } = this.#parts;
    const judge = async (from: Connection) => forbids(from, to, engine.copies.settings())?.[1];
    const why = await connections.use(sourceOf(record).connection, "retry", judge).catch((error: unknown) => {
      if (!(error instanceof CsiError)) throw error;
    });
    if (why === undefined) return;
    const text = `the copy to volume "${record.name}" is no longer allowed: ${why}`;
    const error = new CsiError("failed-precondition", text);
    const running = engine.copies.running(target);
    running?.stop(error);
    await running?.done;
    if (record.role === "create") await engine.removal.remove(target, record, call);
    throw error;
  }

  /** Stops the copies and waits for work that continues after answers, at most `limitMs` milliseconds for both. */
  async stop(limitMs: number): Promise<void> {
    const end = performance.now() + limitMs;
    await this.#parts.engine.copies.stop(limitMs);
    await within(Promise.all(this.#after), Math.max(0, end - performance.now()));
  }

  #afterwards(work: Promise<void>): void {
    const done = work.finally(() => this.#after.delete(done));
    this.#after.add(done);
  }

  async #join(connection: Connection, taking: TakingAbility, request: CopyRequest, call: Call) {
    const { calls, engine } = this.#parts;
    const { target, spec } = request;
    const running = engine.copies.running(target);
    if (running) {
      refuseOther(running.record, request);
      await this.refuseForbidden(connection, target, running.record, call);
      return { kind: "running", running } as const;
    }
    const volume = await calls.make(connection, () => taking.existing(spec, call));
    if (volume) {
      this.#afterwards(this.#settleIfNoted(connection, taking, target, call));
      return { kind: "volume", volume } as const;
    }
    const known = await this.find(connection, taking, target, call);
    const record = known?.record ?? (await this.#admission.begin(request, connection, taking, call));
    const lease = engine.copies.owner(target, record);
    const step = nextStep("create", { record, lease });
    if (step === "remove") {
      await engine.removal.remove(target, record, call);
      throw whyEnded(record);
    }
    refuseOther(record, request);
    if (step === "wait") throw elsewhere(target, record);
    if (known) await this.refuseForbidden(connection, target, record, call);
    if (step === "finish") return { kind: "ready", record } as const;
    const started = this.start(request, record, { isNew: !known, isTakenOver: lease === "gone" });
    return { kind: "running", running: started } as const;
  }

  /** Runs a copy in this process. Throws "aborted" while its landing becomes the volume: nothing may write into that. */
  start(
    { target, source, spec }: Omit<CopyRequest, "role">,
    record: CopyRecord,
    state: Pick<CopyWork, "isNew" | "isTakenOver">,
  ): OneCopy {
    if (this.#becoming.has(encodeHandle(target))) throw elsewhere(target);
    const from = this.#parts.connections.record(source.connection)?.lastValid?.facts.copies;
    const { dropAcls = false, allowPlain = false } = from ?? {};
    return this.#parts.engine.copies.start({ target, source, spec, record, ...state, dropAcls, allowPlain });
  }

  /** The answer of a request after its wait. */
  async #answer(
    connection: Connection,
    taking: TakingAbility,
    request: CopyRequest,
    running: OneCopy,
    call: Call,
  ): Promise<Volume> {
    running.ask();
    if (this.#parts.engine.copies.running(request.target)) throw new CsiError("aborted", running.text);
    const end = await running.done;
    if (end.kind === "ready") return this.land(connection, taking, request, end.record, call);
    if (end.kind === "paused") throw end.why;
    if (end.kind === "cancelled") {
      await this.#parts.engine.removal.remove(request.target, running.record, call);
      throw whyEnded(running.record);
    }
    if (isFinal(end.error)) await this.#parts.engine.removal.remove(request.target, running.record, call);
    throw end.error;
  }

  async #settleIfNoted(connection: Connection, taking: TakingAbility, target: Handle, call: Call) {
    const known = await this.find(connection, taking, target, call).catch(() => undefined);
    if (known) await this.#parts.engine.removal.settle(target, known.record, call);
  }
}
