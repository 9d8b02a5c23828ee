import type { Log } from "../core/call.ts";
import type { CsiError } from "../core/errors.ts";
import type { Connection } from "./connection.ts";

/** The file of a connection as it was judged last. `defaults` is what it was read over. */
export type ConnectionFileState =
  | { readonly kind: "good"; readonly text: string; readonly defaults: object; readonly connection: ConnectionFacts }
  | {
      readonly kind: "bad";
      /** Undefined when the file could not even be read. */
      readonly text: string | undefined;
      readonly defaults: object;
      readonly error: CsiError;
      /** Whether the last good file goes on being served. */
      readonly served: boolean;
    }
  | { readonly kind: "gone" };

/** What is told of a connection in order, and what a later file is held against. */
export type ConnectionFacts = Pick<Connection, "driverName" | "family" | "suspended" | "accessibleTopology" | "labels">;

/** A file that could be used. */
export type LastGood = Extract<ConnectionFileState, { readonly kind: "good" }>;

/** What is known of the file of every connection. Each change of state is one line of the log; nothing is written while none changes. */
export class ConnectionFileStates {
  readonly #states = new Map<string, ConnectionFileState>();
  readonly #lastGood = new Map<string, LastGood>();
  readonly #since = new Map<string, number>();
  /** When a call last asked for a connection whose file is gone. */
  readonly #missed = new Map<string, number>();
  readonly #log: Log;
  readonly #now: () => number;

  /** `now` gives milliseconds. */
  constructor(log: Log, now: () => number) {
    this.#log = log;
    this.#now = now;
  }

  /** What the file of this name was found to be when it was last looked at. */
  get(name: string): ConnectionFileState | undefined {
    return this.#states.get(name);
  }

  /** The last file of this name that could be used; none once the file was removed. */
  lastGood(name: string): LastGood | undefined {
    return this.#lastGood.get(name);
  }

  /**
   * Every name of which there is a file, or was one that calls have missed lately, sorted, and since when (Date.now()) it is as it
   * is. A connection that was removed on purpose is not missed, and so stops being reported.
   */
  all(): readonly { readonly name: string; readonly state: ConnectionFileState; readonly since: number }[] {
    for (const [name, { kind }] of this.#states) if (kind === "gone") this.#forgetUnused(name);
    const all = [...this.#states].map(([name, state]) => ({ name, state, since: this.#since.get(name) ?? 0 }));
    return all.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Names of which there was a file when they were last looked at. */
  present(): readonly string[] {
    return [...this.#states].flatMap(([name, { kind }]) => (kind === "gone" ? [] : [name]));
  }

  /** Takes down what a look at the file has found. */
  put(name: string, now: ConnectionFileState): void {
    const before = this.#states.get(name);
    // A name that nobody ever had a file for may be anything that a class says.
    if (now.kind === "gone" && before === undefined) return;
    this.#states.set(name, now);
    if (now.kind === "gone") this.#missed.set(name, this.#now());
    else this.#missed.delete(name);
    if (now.kind === "good") this.#lastGood.set(name, now);
    if (now.kind === "gone") this.#lastGood.delete(name);
    if (isSame(before, now)) return;
    if (standing(before) !== standing(now)) this.#since.set(name, this.#now());
    this.#logChange(name, before, now);
  }

  #forgetUnused(name: string): void {
    if (this.#now() - (this.#missed.get(name) ?? 0) < forgetMs) return;
    for (const map of [this.#states, this.#since, this.#missed]) map.delete(name);
    this.#log.info(
      `connection "${name}" is forgotten: its file was removed, and no call has asked for it for an hour`,
      {
        connection: name,
      },
    );
  }

  #logChange(name: string, before: ConnectionFileState | undefined, now: ConnectionFileState): void {
    const fields = { connection: name };
    if (now.kind === "good") {
      const { driverName, suspended } = now.connection;
      const more = { ...fields, driver: driverName, ...(suspended && { suspended }) };
      this.#log.info(`connection "${name}": ${accepted(before)}`, more);
    } else if (now.kind === "bad") {
      const how = now.served ? degraded : outOfService;
      this.#log.warn(`connection "${name}" ${how}`, { ...fields, reason: now.error.message });
    } else this.#log.warn(`connection "${name}" ${gone}`, fields);
  }
}

/** A connection without a file is forgotten when no call has asked for it for so long, in milliseconds. */
const forgetMs = 3_600_000;

const degraded = "is degraded: its file cannot be used, the last good one goes on being served";
const outOfService =
  "is out of service: its file cannot be used, and no good one was seen since the start; no listing shows its volumes";
const gone =
  "is gone: its file was removed; until it is back its volumes answer UNAVAILABLE, and no listing shows them";

/** A good file that changed is good since it first was; one that turned from serving the last good to nothing is not. */
const standing = (state: ConnectionFileState | undefined): string | undefined =>
  state?.kind === "bad" && state.served ? "degraded" : state?.kind;

/** A file that can be used, after what was there before. Whether its storage can be used is another question (checks.ts). */
function accepted(before: ConnectionFileState | undefined): string {
  if (before === undefined) return "file accepted";
  if (before.kind === "gone") return "file is back and accepted";
  if (before.kind === "good") return "changed file accepted";
  return before.served ? "file accepted again" : "file accepted now";
}

function isSame(before: ConnectionFileState | undefined, now: ConnectionFileState): boolean {
  if (before?.kind === "good" && now.kind === "good") return before.text === now.text;
  if (before?.kind === "bad" && now.kind === "bad")
    return before.error.message === now.error.message && before.served === now.served;
  return before?.kind === now.kind;
}
