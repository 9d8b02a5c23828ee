import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { encodeHandle, type Handle } from "../core/handle.ts";
import { within } from "../core/time.ts";
import type { CopySpec } from "../drivers/copying.ts";
import type { Volume } from "../drivers/driver.ts";
import type { Connection } from "../mux/connection.ts";
import type { Groups } from "../mux/groups.ts";
import type { Handles } from "../mux/handles.ts";
import { ability, refuseClass, refuseUnmet } from "../mux/placement.ts";
import { segmentsOf } from "../topology/accessible-topology.ts";
import { allowed } from "./begin.ts";
import { cancelCopy } from "./cleanup.ts";
import { copySourceOf } from "./copy-work.ts";
import type { CopyCreation } from "./create-volume.ts";
import { finishCopy } from "./finish.ts";
import { freezeSource, noPass } from "./freeze.ts";
import { listCopies } from "./listing.ts";
import type { MethodChoice } from "./methods.ts";
import { type KnownCopy, nextStep } from "./next-step.ts";
import type { CopyAnswer, CopyCommand } from "./protocol.ts";
import { type CopyRecord, sourceOf, specOf, whyEnded } from "./record.ts";
import type { CopyingParts } from "./running-copies.ts";
import type { RunningCopy } from "./running-copy.ts";
import { ensureLastSnapshot, proveOrigin } from "./source-snapshot.ts";

/** The interval of progress lines to a client, in milliseconds. */
const tellMs = 2_000;

/** Sends a line to the client. */
type Tell = (answer: CopyAnswer) => void;
type Methods = Extract<MethodChoice, { kind: "methods" }>;
type CopyBy<T> = (to: Connection, methods: Methods) => Promise<T>;
type Wanted = Extract<CopyCommand, { command: "plan" | "begin" }>;

/** The commands of the command socket (protocol.ts): the requests of `csimux move` and `csimux copies` to the controller. */
export class CopyCommands {
  readonly #parts: CopyingParts;
  readonly #copying: CopyCreation;
  readonly #groups: Groups;
  readonly #handles: Pick<Handles, "known">;

  constructor(parts: CopyingParts, copying: CopyCreation, groups: Groups, handles: Pick<Handles, "known">) {
    this.#handles = handles;
    this.#parts = parts;
    this.#copying = copying;
    this.#groups = groups;
  }

  /**
   * Runs a command and sends its answers to `tell`; the last one is of kind "done". Throws CsiError. `client` aborts when the client
   * disconnects, which only ends the waiting.
   */
  async run(command: CopyCommand, tell: Tell, client: AbortSignal, call: Call): Promise<void> {
    tell({ kind: "done", ...(await this.#answer(command, tell, client, call)) });
  }

  async #answer(
    command: CopyCommand,
    tell: Tell,
    client: AbortSignal,
    call: Call,
  ): Promise<Omit<Extract<CopyAnswer, { kind: "done" }>, "kind">> {
    switch (command.command) {
      case "plan":
        return this.#plan(command);
      case "begin":
        return this.#begin(command, call);
      case "pass":
        return this.#pass(this.#handles.known(command.target, "volume"), tell, client, call);
      case "finish":
        return this.#finish(this.#handles.known(command.target, "volume"), call);
      case "freeze":
      case "thaw":
        return freezeSource(
          this.#parts,
          this.#copying,
          { volume: this.#handles.known(command.volume, "volume"), on: command.command === "freeze" },
          call,
        );
      case "cancel":
        return cancelCopy(this.#parts, this.#copying, this.#handles.known(command.target, "volume"), client, call);
      case "list":
        return listCopies(this.#parts, tell, call);
    }
  }

  #on<T>(connection: string, work: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#parts.connections.use(connection, "retry", work);
  }

  #plan(wanted: Wanted) {
    const source = this.#handles.known(wanted.source, "volume");
    return this.#to(source, wanted, async (_, { methods, instead }) => ({ method: methods[0], instead: [...instead] }));
  }

  /** Runs `work` on the connection that the class names, if it can take this volume. */
  async #to<T>(source: Handle, { parameters, capabilities }: Wanted, work: CopyBy<T>) {
    const named = parameters["connection"] ?? "";
    if (await this.#groups.has(named)) {
      const text = `the class names the group "${named}", but a move needs a connection; use a class that names one of ${(await this.#groups.members(named)).join(", ")}`;
      throw new CsiError("invalid-argument", text);
    }
    return this.#parts.connections.use(named, "refuse", async connection => {
      refuseUnmet(
        connection,
        capabilities.map(each => ({ ...each, fsType: each.fsType, mountFlags: [], mountGroup: undefined })),
      );
      if (connection.suspended)
        throw new CsiError("resource-exhausted", `connection "${named}" takes no new volumes (suspended: true)`);
      refuseClass(connection, parameters);
      return work(connection, allowed(await this.#copying.methods(other(source, connection), connection)));
    });
  }

  #begin(wanted: Wanted, call: Call) {
    const source = this.#handles.known(wanted.source, "volume");
    return this.#to(source, wanted, async (connection, { instead }) => {
      const spec: CopySpec = {
        ...{ name: wanted.name, range: { required: wanted.bytes, limit: undefined }, source: undefined },
        ...{ parameters: wanted.parameters, mutable: wanted.mutable },
        origin: { kind: "volume", handle: encodeHandle(source) },
      };
      const { target, record } = await this.#copying.beginMove(connection, source, spec, call);
      return { target: encodeHandle(target), method: record.method, instead: [...instead] };
    });
  }

  /** Completes the interrupted pass, or takes the next one. */
  async #pass(target: Handle, tell: Tell, client: AbortSignal, call: Call) {
    const began = performance.now();
    const { copies } = this.#parts;
    const running = copies.running(target);
    const before = running?.record ?? (await this.#record(target, call));
    await this.#on(target.connection, to => this.#copying.refuseForbidden(to, target, before, call));
    if (!running) await proveOrigin(this.#parts.connections, target, before, call);
    const known = running ? undefined : await this.#known(target, before, call);
    const step = known ? nextStep("pass", known) : "continue";
    if (step === "wait") throw copies.whyHeld(target, before);
    if (step === "refuse") {
      const text = `the copy to volume ${encodeHandle(target)} is ${known?.isVolume ? "the volume already; run csimux copies finish" : before.state}`;
      throw new CsiError("failed-precondition", text);
    }
    const record = step === "next-pass" ? await this.#next(target, before, call) : before;
    const start = () => {
      const request = { target, source: sourceOf(record), spec: specOf(record) };
      return this.#copying.start(request, record, false);
    };
    const copy = running ?? start();
    const end = await watched(copy, tell, client);
    if (end.kind === "paused" || end.kind === "cancelled") throw end.why;
    if (end.kind === "failed") throw end.error;
    const source = sourceOf(end.record);
    await this.#on(source.connection, async ({ driver }) =>
      driver.copySource?.release(encodeHandle(target), end.record.snapshot, call),
    );
    const { pass: number, snapshotTime, done: bytes } = end.record;
    const seconds = (performance.now() - began) / 1_000;
    const continued = record === before;
    const done = { number, snapshotTime, continued, bytes, seconds };
    return { target: encodeHandle(target), method: end.record.method, pass: done };
  }

  /** The next pass begins where the last one ended. */
  #next(target: Handle, before: CopyRecord, call: Call): Promise<CopyRecord> {
    const { source, pass } = { source: sourceOf(before), pass: before.pass + 1 };
    return this.#on(source.connection, async ({ driver, copies }) => {
      const copySource = copySourceOf(driver, source.connection);
      const now = Math.floor(Date.now() / 1_000);
      const from = { kind: source.kind, id: source.id };
      // An earlier request may have ended after it had taken this pass's snapshot: that one is older than this request.
      const last = await ensureLastSnapshot(target, before, source, copySource, call);
      await copySource.release(encodeHandle(target), last, call);
      const made = await copySource.protect(from, encodeHandle(target), pass, call);
      const snapshot = copies?.allowPlain ? { ...made, traits: { ...made.traits, encrypted: false } } : made;
      const { name, proof } = last;
      const next = { pass, snapshot, snapshotTime: now, earlier: { name, proof }, done: 0n, total: snapshot.toSend };
      return { ...before, ...next, state: "copying", asked: now };
    });
  }

  async #finish(target: Handle, call: Call) {
    const record = await this.#recordOrNone(target, call);
    const step = nextStep("finish", await this.#known(target, record, call));
    const { copies, removal } = this.#parts;
    if (!record) return this.#finished(target, call);
    if (step === "answer") {
      copies.afterwards(removal.forgetFinished(target, record, call));
      return this.#finished(target, call);
    }
    if (step === "remove") {
      await removal.remove(target, record, call);
      throw whyEnded(record);
    }
    if (step === "wait") throw copies.whyHeld(target, record);
    if (step === "refuse") {
      const text =
        record.frozen === noPass
          ? `csimux ended while it stopped the source of the copy to volume ${encodeHandle(target)}; run csimux copies freeze again, then pass and finish`
          : record.state === "ready"
            ? `the last pass of the copy to volume ${encodeHandle(target)} began before its source was stopped (freeze), so it lacks what was written after that; run csimux copies pass again, then finish`
            : `the data of volume ${encodeHandle(target)} is not complete; copy it first`;
      throw new CsiError("failed-precondition", text);
    }
    return this.#on(target.connection, async connection => {
      await this.#copying.refuseForbidden(connection, target, record, call);
      const request = { target, spec: specOf(record) };
      const volume = await finishCopy(this.#parts, this.#copying.place(connection, target), request, record, call);
      return { volume: described(connection, volume) };
    });
  }

  /** The volume of an earlier `finish`. */
  #finished(target: Handle, call: Call) {
    return this.#on(target.connection, async connection => {
      const volume = await ability(connection, "reading").get(target.id, call);
      return { volume: described(connection, volume) };
    });
  }

  #known(target: Handle, record: CopyRecord | undefined, call: Call): Promise<KnownCopy> {
    return this.#on(target.connection, connection => this.#copying.known(connection, target, record, call));
  }

  /** The record of a target. Throws "not-found". */
  async #record(target: Handle, call: Call): Promise<CopyRecord> {
    const record = await this.#recordOrNone(target, call);
    if (record) return record;
    throw new CsiError("not-found", `there is no copy to volume ${encodeHandle(target)}`);
  }

  #recordOrNone(target: Handle, call: Call): Promise<CopyRecord | undefined> {
    return this.#on(target.connection, connection => this.#copying.find(connection, target, call));
  }
}

/** Sends the progress until the copy ends. A connected client counts as a request, so that the copy does not pause. */
async function watched(copy: RunningCopy, tell: Tell, client: AbortSignal) {
  while (!(await within(copy.done, tellMs))) {
    client.throwIfAborted();
    copy.ask();
    const { done, total } = copy.record;
    tell({ kind: "progress", text: copy.text, done, total, rate: BigInt(copy.status.perSecond) });
  }
  return copy.done;
}

/** A finished volume as the answer to a client describes it. */
function described(connection: Connection, { id, bytes, context }: Volume) {
  const handle = encodeHandle({ kind: "volume", connection: connection.name, id });
  const topology = connection.accessibleTopology.map(each => ({ ...segmentsOf(each) }));
  return { handle, bytes, context: { ...context }, topology };
}

/** Throws "invalid-argument" if the source is on the same connection. */
function other(source: Handle, { name }: Connection): Handle {
  if (source.connection !== name) return source;
  throw new CsiError("invalid-argument", `volume ${encodeHandle(source)} is on connection "${name}" already`);
}
