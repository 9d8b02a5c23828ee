import type { Call } from "../core/call.ts";
import { CsiError, ignoreNotFound, isFinal } from "../core/errors.ts";
import { encodeHandle, type Handle } from "../core/handle.ts";
import { within } from "../core/time.ts";
import type { CopySpec } from "../drivers/copying.ts";
import type { Driver, Volume } from "../drivers/driver.ts";
import type { Connection } from "../mux/connection.ts";
import type { MadeVolume } from "../mux/copies.ts";
import { ability, evaluateExisting, evaluatePlacement, type PlacementRequest } from "../mux/placement.ts";
import type { PlacementPolicy } from "../topology/accessible-topology.ts";
import { beginCopy, type CopyRequest, methodsOf, refuseOther } from "./begin.ts";
import { retried } from "./copy-work.ts";
import { finishCopy } from "./finish.ts";
import { forbids, type MethodChoice } from "./methods.ts";
import { type KnownCopy, nextStep } from "./next-step.ts";
import { type CopyRecord, currentRecord, type RecordPlace, sourceOf, whyEnded } from "./record.ts";
import type { CopyingParts } from "./running-copies.ts";
import type { RunningCopy } from "./running-copy.ts";

/**
 * Handles requests for volumes with the content of another connection. A request begins a copy or joins it and waits a few seconds; if the
 * copy takes longer, the answer is "aborted" with the progress. Only a request makes a complete target the volume.
 */
export class CopyCreation {
  readonly #parts: CopyingParts;

  constructor(parts: CopyingParts) {
    this.#parts = parts;
  }

  /** The methods from a source to a connection. Throws "unavailable" if the source's connection cannot be used. */
  methods(source: Handle, to: Connection): Promise<MethodChoice> {
    const settings = this.#parts.copies.settings();
    return this.#parts.connections.use(source.connection, "retry", async from =>
      methodsOf(from, to, source.kind, settings),
    );
  }

  /** The id that the volume of this name will have. */
  #target(connection: Connection, name: string): Handle {
    return { kind: "volume", connection: connection.name, id: ability(connection, "copyTarget").idOf(name) };
  }

  /** Where the volume will be reachable from. What has begun or exists is answered, even on a connection that takes no new volumes meanwhile. */
  async #topology(
    connection: Connection,
    spec: CopySpec,
    request: PlacementRequest,
    policy: PlacementPolicy,
    call: Call,
  ): Promise<MadeVolume["accessibleTopology"]> {
    let verdict = evaluatePlacement(connection, request, policy);
    if (verdict instanceof CsiError && verdict.code === "resource-exhausted") {
      const place = this.place(connection, this.#target(connection, spec.name));
      if ((await currentRecord(place, call)) || (await place.use(to => to.existing(spec, call))))
        verdict = evaluateExisting(connection, { ...request, name: spec.name }, policy);
    }
    if (verdict instanceof CsiError) throw verdict;
    return verdict.accessibleTopology;
  }

  /** Where the record of the copy to a volume is. */
  place(connection: Connection, target: Handle): RecordPlace {
    return {
      ...{ target: encodeHandle(target), id: target.id },
      use: work => this.#parts.calls.make(connection, () => work(ability(connection, "copyTarget"))),
    };
  }

  /** The record of the copy to a volume, or undefined. Throws "failed-precondition" if it cannot be used. */
  async find(connection: Connection, target: Handle, call: Call): Promise<CopyRecord | undefined> {
    if (!connection.driver.copyTarget) return undefined;
    const record = await currentRecord(this.place(connection, target), call);
    if (record) await this.#parts.copies.identify();
    return record;
  }

  /** What `nextStep` needs about the copy with this record. In doubt, nothing has ended: no failure is final. */
  async known(connection: Connection, target: Handle, record: CopyRecord | undefined, call: Call): Promise<KnownCopy> {
    const { calls, copies } = this.#parts;
    try {
      const isMade = await calls.make(connection, () => isVolume(connection.driver, target, call));
      const mayLackIt = !isMade && record?.state === "ready";
      const { use } = this.place(connection, target);
      const hasContent = !mayLackIt || (await use(to => to.hasContent(target.id, call)));
      return { record, isVolume: isMade, hasContent, lease: record ? copies.observeLease(target, record) : "none" };
    } catch (error) {
      throw retried(error);
    }
  }

  /** Whether a copy to a volume of this name has begun. Throws like `find`. */
  async hasBegun(connection: Connection, name: string, call: Call): Promise<boolean> {
    if (!connection.driver.copyTarget) return false;
    return (await this.find(connection, this.#target(connection, name), call)) !== undefined;
  }

  /** CreateVolume with a source on another connection. The caller holds the locks of volume and source. */
  async create(
    connection: Connection,
    source: Handle,
    spec: CopySpec,
    placement: PlacementRequest,
    policy: PlacementPolicy,
    call: Call,
  ): Promise<MadeVolume> {
    const accessibleTopology = await this.#topology(connection, spec, placement, policy, call);
    return { volume: await this.#volume(connection, source, spec, call), accessibleTopology };
  }

  async #volume(connection: Connection, source: Handle, spec: CopySpec, call: Call): Promise<Volume> {
    const end = performance.now() + this.#parts.copies.times.answerWithin;
    const request: CopyRequest = { target: this.#target(connection, spec.name), source, spec, role: "create" };
    const copy = await this.#join(connection, request, call);
    if (copy.kind === "volume") return copy.volume;
    if (copy.kind === "ready")
      return finishCopy(this.#parts, this.place(connection, request.target), request, copy.record, call);
    await within(copy.running.done, Math.max(0, end - performance.now()));
    return this.#answer(connection, request, copy.running, call);
  }

  /** Begins a copy for `csimux move`, or finds it; nothing is copied yet. */
  async beginMove(
    connection: Connection,
    source: Handle,
    spec: CopySpec,
    call: Call,
  ): Promise<{ readonly target: Handle; readonly record: CopyRecord }> {
    const target = this.#target(connection, spec.name);
    const request: CopyRequest = { target, source, spec, role: "move" };
    const place = this.place(connection, target);
    const known = await currentRecord(place, call);
    if (!known && (await place.use(to => to.existing(spec, call))))
      throw new CsiError("already-exists", `volume "${spec.name}" exists already, and is complete`);
    const record = known ?? (await beginCopy(this.#parts, request, connection, place, call));
    refuseOther(record, request);
    return { target, record };
  }

  /**
   * Ends a copy that the settings no longer allow, and throws "failed-precondition". Removes the copy of a claim, because after a final error
   * nothing may be left; a move keeps its progress. Throws "aborted" while programs of the copy do not end. A source
   * without a valid file forbids nothing.
   */
  async refuseForbidden(to: Connection, target: Handle, record: CopyRecord, call: Call): Promise<void> {
    const { connections, copies } = this.#parts;
    const judge = async (from: Connection) => forbids(from, to, copies.settings())?.[1];
    const why = await connections.use(sourceOf(record).connection, "retry", judge).catch((error: unknown) => {
      if (!(error instanceof CsiError)) throw error;
    });
    if (why === undefined) return;
    const text = `the copy to volume "${record.name}" is no longer allowed: ${why}`;
    const error = new CsiError("failed-precondition", text);
    const running = copies.running(target);
    running?.stop(error);
    if (running && !(await within(running.done, copies.times.answerWithin)))
      throw new CsiError("aborted", `${text}; its programs have not ended yet; retry`);
    if (record.role === "create") await this.#removeEnded(to, target, call);
    throw error;
  }

  /** Finds the volume, or the copy in this process or by its record; else begins one. What is not over runs in this process then. */
  async #join(connection: Connection, request: CopyRequest, call: Call) {
    const { copies, removal } = this.#parts;
    const { target, spec } = request;
    const place = this.place(connection, target);
    const running = copies.running(target);
    if (running) {
      refuseOther(running.record, request);
      await this.refuseForbidden(connection, target, running.record, call);
      return { kind: "running", running } as const;
    }
    const volume = await place.use(to => to.existing(spec, call));
    if (volume) {
      const left = currentRecord(place, call).catch(() => undefined);
      copies.afterwards(left.then(known => known && removal.forgetFinished(target, known, call)));
      return { kind: "volume", volume } as const;
    }
    const known = await currentRecord(place, call);
    const record = known ?? (await beginCopy(this.#parts, request, connection, place, call));
    const step = nextStep("create", await this.known(connection, target, record, call));
    if (step === "answer")
      throw new CsiError("aborted", `volume ${place.target} was completed by another process meanwhile; retry`);
    if (step === "remove") {
      await removal.remove(target, record, call);
      throw whyEnded(record);
    }
    if (step === "forget") {
      await removal.forgetFinished(target, record, call);
      const text = `the volume that was copied to ${place.target} no longer exists; its record is being removed; retry`;
      throw new CsiError("aborted", text);
    }
    refuseOther(record, request);
    if (step === "wait") throw copies.whyHeld(target, record);
    if (known) await this.refuseForbidden(connection, target, record, call);
    if (step === "finish") return { kind: "ready", record } as const;
    const started = this.start(request, record, !known);
    return { kind: "running", running: started } as const;
  }

  /** Runs a copy in this process. Throws like `RunningCopies.start`. */
  start({ target, source, spec }: Omit<CopyRequest, "role">, record: CopyRecord, isNew: boolean): RunningCopy {
    const from = this.#parts.connections.record(source.connection)?.lastValid?.facts.copies;
    const { dropAcls = false, allowPlain = false } = from ?? {};
    return this.#parts.copies.start({ target, source, spec, record, isNew, dropAcls, allowPlain });
  }

  /** The answer of a request after its wait. */
  async #answer(connection: Connection, request: CopyRequest, running: RunningCopy, call: Call): Promise<Volume> {
    running.ask();
    if (this.#parts.copies.running(request.target)) throw new CsiError("aborted", running.text);
    const end = await running.done;
    if (end.kind === "ready")
      return finishCopy(this.#parts, this.place(connection, request.target), request, end.record, call);
    if (end.kind === "paused") throw end.why;
    if (end.kind === "cancelled") {
      await this.#removeEnded(connection, request.target, call);
      throw whyEnded(running.record);
    }
    if (isFinal(end.error)) await this.#removeEnded(connection, request.target, call);
    throw end.error;
  }

  /** Removes a claim's copy as its record is now. Throws "aborted" if another process works on it, which may have become the holder since. */
  async #removeEnded(connection: Connection, target: Handle, call: Call): Promise<void> {
    const { copies, removal } = this.#parts;
    const record = await this.find(connection, target, call);
    if (!record) return;
    const step = nextStep("delete", await this.known(connection, target, record, call));
    if (step === "wait") throw copies.whyHeld(target, record);
    if (step === "remove") await removal.remove(target, record, call);
  }
}

/** Whether a target has become the volume already; its record may not say so yet. */
export async function isVolume({ reading }: Driver, target: Handle, call: Call): Promise<boolean> {
  return (await reading?.get(target.id, call).catch(ignoreNotFound)) !== undefined;
}
