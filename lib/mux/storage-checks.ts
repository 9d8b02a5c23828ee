import type { Call } from "../core/call.ts";
import { CsiError, detailOf } from "../core/errors.ts";
import type { Breakers } from "./breakers.ts";
import type { Connection } from "./connection.ts";
import type { Connections } from "./connections.ts";
import type { LastGood } from "./file-states.ts";
import type { Jobs } from "./jobs.ts";
import type { ResponseTimeout } from "./response-timeout.ts";

/**
 * How the storage behind a connection was found when it was last asked: "not-checked" since its file was opened or changed;
 * "unreachable": no answer; "login-refused": it refuses the credentials or the account; "unusable": it answers, and something
 * else is wrong, such as a pool that does not exist.
 */
export type StorageState = "not-checked" | "good" | "unreachable" | "login-refused" | "unusable";

/** What is known of the storage behind a connection. */
export interface CheckResult {
  readonly state: StorageState;
  /** When that was found (Date.now()); undefined before the first check. */
  readonly at: number | undefined;
  /** What the storage, or csimux, says; undefined while nothing is wrong. */
  readonly reason: string | undefined;
}

const notChecked: CheckResult = { state: "not-checked", at: undefined, reason: undefined };

/** A failed question to a storage, as what is known of it from now on. */
export const failedCheck = (error: unknown): CheckResult => ({
  state: error instanceof CsiError ? (error.refused ?? states[error.code] ?? "unusable") : "unusable",
  at: Date.now(),
  reason: error instanceof CsiError ? error.message : "unexpected failure; see the log",
});

const states: Readonly<Partial<Record<CsiError["code"], StorageState>>> = {
  unavailable: "unreachable",
  "deadline-exceeded": "unreachable",
  unauthenticated: "login-refused",
  "permission-denied": "login-refused",
};

/** The last check of one connection. */
interface LastCheck {
  /** The file that the check was made with; a check of another file says nothing. */
  readonly file: LastGood | undefined;
  readonly view: CheckResult;
}

interface CheckParts {
  readonly connections: Pick<Connections, "lastGood">;
  readonly breakers: Pick<Breakers, "look">;
  readonly jobs: Pick<Jobs, "run">;
}

/**
 * What the drivers' own checks (Driver.check) say of each storage: whether it is reachable, lets csimux in, and has what the file names.
 * Each change of what is known is one line of the log.
 */
export class StorageChecks {
  readonly #parts: CheckParts;
  readonly #patience: ResponseTimeout;
  readonly #checked = new Map<string, LastCheck>();
  /** What the log said last of each connection. */
  readonly #logged = new Map<string, StorageState>();

  constructor(parts: CheckParts, patience: ResponseTimeout) {
    this.#parts = parts;
    this.#patience = patience;
  }

  /** What the last check of the file as it is now has found. */
  of(name: string): CheckResult {
    const known = this.#checked.get(name);
    return known && isSame(known.file, this.#parts.connections.lastGood(name)) ? known.view : notChecked;
  }

  /** Checks the storage. Returns whether it answers at all; only then is it worth asking anything else. */
  async check(connection: Connection, call: Call): Promise<boolean> {
    const { name } = connection;
    const file = this.#parts.connections.lastGood(name);
    const error = await this.#parts.jobs
      .run(`check of ${name}`, "", call, own => this.#asked(connection, own))
      .then(
        () => undefined,
        (cause: unknown) => cause ?? new CsiError("internal", "unexpected failure; see the log"),
      );
    // The end of the process, or of the round, says nothing about the storage.
    if (error !== undefined && call.signal.aborted) return false;
    if (error !== undefined && !(error instanceof CsiError))
      call.log.error("the check of a storage failed", { connection: name, reason: detailOf(error) });
    const view: CheckResult =
      error === undefined ? { state: "good", at: Date.now(), reason: undefined } : failedCheck(error);
    this.#checked.set(name, { file, view });
    if (connection.driver.check) this.#log(name, view, call);
    return view.state !== "unreachable";
  }

  /** Forgets connections that no longer exist. */
  keep(names: ReadonlySet<string>): void {
    for (const map of [this.#checked, this.#logged]) {
      for (const name of map.keys()) if (!names.has(name)) map.delete(name);
    }
  }

  async #asked(connection: Connection, call: Call): Promise<void> {
    const { driver } = connection;
    if (!driver.check) return;
    const question = () => this.#patience.ask(connection, call, async own => driver.check?.(own));
    await this.#parts.breakers.look(connection, question);
  }

  #log(connection: string, { state, reason }: CheckResult, call: Call): void {
    const before = this.#logged.get(connection);
    if (before === state) return;
    this.#logged.set(connection, state);
    const text = `connection "${connection}": its storage ${state === "good" && before === undefined ? firstGood : words[state]}`;
    if (state === "good") call.log.info(text, { connection });
    else call.log.warn(text, { connection, reason });
  }
}

const firstGood = "was checked and can be used";

const words: Readonly<Record<StorageState, string>> = {
  "not-checked": "has not been checked yet",
  good: "can be used again",
  unreachable: "cannot be reached",
  "login-refused": "refuses the login",
  unusable: "cannot be used",
};

const isSame = (one: LastGood | undefined, other: LastGood | undefined): boolean =>
  one?.text === other?.text && one?.defaults === other?.defaults;
