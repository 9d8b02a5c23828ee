import type { Access } from "../core/access.ts";
import type { Log } from "../core/call.ts";
import type { CsiError } from "../core/errors.ts";
import type { CopyPolicy } from "../core/proxy.ts";
import type { Context, Driver } from "../drivers/driver.ts";
import type { ConditionTracker } from "../health/condition-tracker.ts";
import type { VolumeFindings } from "../health/finding.ts";
import type { AccessibleTopology } from "../topology/accessible-topology.ts";
import type { Breaker, Outage } from "./breaker.ts";

/** One connection file, opened. */
export interface Connection {
  readonly name: string;
  /** The value of `driver:`. */
  readonly driverName: string;
  /** Drivers of one family understand each other's volumes; a file may not change family while its volumes exist. */
  readonly family: string;
  readonly driver: Driver;
  /** What its volumes can be used for: the driver's access, less what the file excludes. */
  readonly access: Access;
  /** The topologies it is reachable from; empty: everywhere. */
  readonly accessibleTopology: readonly AccessibleTopology[];
  readonly labels: Readonly<Record<string, string>>;
  /** What its file says about copies; undefined: nothing, so all are allowed. */
  readonly copies?: CopyPolicy | undefined;
  /** It takes no new volumes; everything else continues. */
  readonly suspended: boolean;
  /** An error of its file that leaves it usable, such as an unknown key, and its place. */
  readonly defect?: string | undefined;
  /** DeleteVolume succeeds and leaves the volume in place (`deleteStrategy: retain`). */
  readonly retain: boolean;
  /** Why a class of this kind cannot have these parameters: one is probably misspelt. */
  readonly misspelt?: ((kind: "storage" | "snapshot", parameters: Context) => string | undefined) | undefined;
  /** The host and the ZFS pool of its volumes; connections with an equal one share their free space. Undefined if it has none. */
  readonly pool?: string | undefined;
  /** Whether the host that it logs in to accepts a TCP connection. Undefined if it has none. */
  readonly answers?: ((signal: AbortSignal) => Promise<boolean>) | undefined;
}

/** What a valid file says, without its driver. */
export type ConnectionFacts = Omit<Connection, "name" | "driver" | "access" | "misspelt">;

/** The files that a connection's file names, such as that of a password, as they were read. */
export interface ReadVersion {
  /** Reads them again: whether they are the same. */
  areEqual: () => boolean;
  /** They were not. */
  isOld: boolean;
}

/** A version, and the function with which its reader tells how to compare it. Without such a call it names no files. */
export function newVersion(): readonly [version: ReadVersion, named: (areEqual: () => boolean) => void] {
  const version: ReadVersion = { areEqual: () => true, isOld: false };
  const named = (areEqual: () => boolean) => {
    version.areEqual = areEqual;
  };
  return [version, named];
}

/** A valid file; `defaults` is the part of the main file that it was read over. */
export interface ValidFile {
  readonly text: string;
  readonly defaults: object;
  readonly version?: ReadVersion | undefined;
  readonly facts: ConnectionFacts;
}

/** A file that cannot be used. `text` is undefined if it could not even be read. */
interface RejectedFile {
  readonly text: string | undefined;
  readonly defaults: object;
  readonly version?: ReadVersion | undefined;
  readonly error: CsiError;
  /** Whether the last valid version is still in use. */
  readonly served: boolean;
}

/**
 * "degraded": the file is invalid, and its last valid version is in use, or it has a defect; "bad": it is invalid, and there is none; "gone": it
 * was removed.
 */
export type ConnectionState = "good" | "degraded" | "bad" | "gone";

/**
 * The result of the last check of a storage system: "not-checked" since its file was opened or changed; "unreachable": no answer;
 * "login-refused": it refuses the credentials or the account; "unusable": it answers, but something else is wrong, such as a pool
 * that does not exist.
 */
export type StorageState = "not-checked" | "good" | "unreachable" | "login-refused" | "unusable";

/** What is known of the storage system of a connection. */
export interface CheckResult {
  readonly state: StorageState;
  /** The time of the check (Date.now()); undefined before the first. */
  readonly at: number | undefined;
  /** The time of the first check of those with this state in a row (Date.now()). */
  readonly since: number | undefined;
  /** The problem as the storage system or csimux reports it; undefined if there is none. */
  readonly reason: string | undefined;
}

const notChecked: CheckResult = { state: "not-checked", at: undefined, since: undefined, reason: undefined };

/** A figure and the time when it was true (Date.now()). */
export interface Sample<T> {
  readonly value: T;
  readonly at: number;
}

/** What earlier calls happened to reveal of a storage system, so that a status needs no request. */
export interface StorageFigures {
  /** Bytes that a new volume may take. */
  free: Sample<bigint> | undefined;
  volumes: Sample<number> | undefined;
  /** An unfinished listing: the token of its next page, and the number of volumes on the pages before. */
  listing: { readonly next: string; readonly count: number } | undefined;
}

/** What the checks of a storage system's health have found. */
export interface ConnectionHealth {
  readonly conditions: ConditionTracker;
  /** When the last check succeeded (performance.now()); undefined before the first. */
  checkedAt: number | undefined;
  /** Why the health cannot be checked at present; undefined if it can. */
  unknownReason: CheckResult | undefined;
  /** The number of failed checks in a row. */
  failures: number;
  example: Context | undefined;
  /** What the last successful check has found about volumes. */
  found: VolumeFindings;
}

/** The file of an open connection. */
export function fileOf({ text, defaults, version, connection }: OpenConnection): ValidFile {
  const { driverName, family, suspended, defect, retain, accessibleTopology, labels, copies } = connection;
  const { pool, answers } = connection;
  const facts = { driverName, family, suspended, defect, retain, accessibleTopology, labels, copies, pool, answers };
  return { text, defaults, version, facts };
}

/** An open connection and its users. */
export interface OpenConnection extends Pick<ValidFile, "text" | "defaults" | "version"> {
  readonly record: ConnectionRecord;
  readonly connection: Connection;
  /** The number of calls that use it. */
  leases: number;
  /** The number of driver calls that run on it although no call may wait for them any more. */
  kept: number;
  /** When its last call ended (performance.now()). */
  idleSince: number;
}

/** How many connection files are read at once. */
export const filesAtOnce = 64;

/** A removed connection is forgotten when no call has asked for it for this long, in milliseconds. */
export const forgetMs = 3_600_000;

/**
 * What csimux knows about one connection; Connections keeps one for each name that has a file, or had one that is still missed.
 * Each change of its state is one line of the log.
 */
export class ConnectionRecord {
  readonly name: string;
  readonly #log: Log;
  readonly #now: () => number;
  #isGone = false;
  /** Since when it has its state (Date.now()). */
  since = 0;
  /** When a call last asked for it while it had no file (the monotonic clock). */
  missed = 0;
  /** When its file was removed. */
  #leftService = Number.NEGATIVE_INFINITY;
  /** The last valid file; undefined if there was none since the start, or it was removed. */
  lastValid: ValidFile | undefined;
  /** The present file if it cannot be used. */
  rejected: RejectedFile | undefined;
  open: OpenConnection | undefined;
  breaker: Breaker | undefined;
  /** The timer of the breaker's next check. */
  retry: ReturnType<typeof setTimeout> | undefined;
  /** Drivers that have not answered a timed call yet, by the kind of call. */
  silent: Map<string, Driver> | undefined;
  check = notChecked;
  /** The last check that the log has. */
  loggedCheck: StorageState | undefined;
  health: ConnectionHealth | undefined;
  readonly figures: StorageFigures = { free: undefined, volumes: undefined, listing: undefined };

  /** `now` returns milliseconds of a monotonic clock. */
  constructor(name: string, log: Log, now: () => number) {
    this.name = name;
    this.#log = log;
    this.#now = now;
  }

  /** Valid after the first of `accept`, `reject` and `remove`. */
  get state(): ConnectionState {
    if (this.#isGone) return "gone";
    if (this.rejected) return this.rejected.served ? "degraded" : "bad";
    return this.lastValid?.facts.defect === undefined ? "good" : "degraded";
  }

  /** Whether its file was removed within the last hour: what is requested now may have been begun before. */
  get wasInService(): boolean {
    return this.#now() - this.#leftService < forgetMs;
  }

  /** Set while the storage system is known to be unreachable. */
  get outage(): Outage | undefined {
    return this.breaker?.outage;
  }

  /** The file is valid. */
  accept(file: ValidFile): void {
    const { lastValid: last, state: before } = this;
    const was = this.rejected || this.#isGone ? before : "good";
    const isFirst = !last && !this.rejected && !this.#isGone;
    const isEqual = last?.text === file.text && last.defaults === file.defaults && !last.version?.isOld;
    // Suspending a connection does not bring its storage system back.
    if (!isEqual && !(file.facts.suspended && this.outage)) this.resetBreaker();
    if (!isEqual) this.check = notChecked;
    const { driverName: driver, suspended } = file.facts;
    if (isFirst || was !== "good" || last?.text !== file.text || last.version?.isOld)
      this.#log.info(`connection "${this.name}": ${isFirst ? "file accepted" : accepted[was]}`, {
        ...{ connection: this.name, driver },
        ...(suspended && { suspended }),
      });
    this.lastValid = isEqual ? last : file;
    this.rejected = undefined;
    this.#isGone = false;
    if (isFirst || before !== this.state) this.since = Date.now();
  }

  /** The file cannot be used. */
  reject(file: RejectedFile): void {
    const { rejected: last, state: before } = this;
    this.rejected = file;
    this.#isGone = false;
    if (last?.error.message !== file.error.message || last.served !== file.served)
      this.#log.warn(`connection "${this.name}" ${file.served ? degraded : outOfService}`, {
        connection: this.name,
        reason: file.error.message,
      });
    if (before !== this.state) this.since = Date.now();
  }

  /** There is no file; some call asks for it. */
  remove(): void {
    const before = this.state;
    this.missed = this.#now();
    if (before === "gone") return;
    this.#isGone = true;
    this.lastValid = undefined;
    this.rejected = undefined;
    this.check = notChecked;
    this.resetBreaker();
    this.#log.warn(`connection "${this.name}" ${gone}`, { connection: this.name });
    this.since = Date.now();
    // Also if this process could never open it: the one before it may have.
    this.#leftService = this.missed;
  }

  /** A changed file resets the circuit breaker. */
  resetBreaker(): void {
    clearTimeout(this.retry);
    this.retry = undefined;
    this.breaker = undefined;
  }
}

/** What the log says about a valid file, by the state before. */
const accepted: Readonly<Record<ConnectionState, string>> = {
  gone: "file is back and accepted",
  good: "changed file accepted",
  degraded: "file accepted again",
  bad: "file accepted now",
};

const degraded = "is degraded: its file is invalid; the last valid version is still in use";
const outOfService =
  "is out of service: its file is invalid, and no valid version was seen since the start; no listing shows its volumes";
const gone =
  "is gone: its file was removed; until it is restored, calls for its volumes answer UNAVAILABLE, and no listing shows them";
