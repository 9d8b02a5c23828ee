import type { Segments } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import { CsiError, detailOf } from "../core/errors.ts";
import type { Handle } from "../core/handle.ts";
import { mapLimit } from "../core/semaphore.ts";
import type { Context, StorageFindings } from "../drivers/driver.ts";
import { type Change, type Condition, ConditionTracker } from "../health/condition-tracker.ts";
import { type Finding, joined, type VolumeFindings } from "../health/finding.ts";
import { reasonText, severityWords } from "../health/reasons.ts";
import { isReachableFrom } from "../topology/accessible-topology.ts";
import type { Connection } from "./connection.ts";
import type { ConnectionFileState } from "./file-states.ts";
import type { ResponseTimeout } from "./response-timeout.ts";
import { restoreExports } from "./restore-exports.ts";
import type { RouterContext } from "./router-context.ts";
import { type CheckResult, failedCheck, StorageChecks } from "./storage-checks.ts";

/** How many connections are looked at at the same time. */
const width = 16;

/** The subjects that are no volume, the storage, and what stands between csimux and it: ids of volumes are never empty, and hold no line break. */
const storage = "";
const file = "\n";

/** A storage that is slow at times would fill the log, so one look that failed is not told. */
const tellingFailures = 2;

/** How often storages are looked at. */
export interface HealthTimes {
  /** How long a cause must last, and be gone, in milliseconds. */
  readonly hold: number;
  /** How old a look may be that an answer is made from, in milliseconds. */
  readonly fresh: number;
}

/** What is known of the health of one connection. */
interface ConnectionHealth {
  readonly conditions: ConditionTracker;
  /** When the last look ended well (performance.now()); undefined before the first. */
  lookedAt: number | undefined;
  /** Why the storage cannot be looked at now; undefined when it can. */
  unknownReason: CheckResult | undefined;
  /** How many looks in a row have failed. */
  failures: number;
  example: Context | undefined;
  /** What the last look that ended well has found of volumes. */
  found: VolumeFindings;
}

/** The health of one connection for people. */
export interface HealthView {
  /** About the connection and its storage. */
  readonly conditions: readonly Condition[];
  readonly volumes: readonly { readonly volume: string; readonly conditions: readonly Condition[] }[];
  /** Whether the storage can be used, as far as the last check and the last look say. */
  readonly storage: CheckResult;
}

/**
 * What is wrong with connections, their storages and volumes. Each storage is looked at as a whole, by its driver; answers are made
 * from what the looks have found, so a listing asks nobody for single volumes.
 */
export class HealthMonitor {
  readonly #common: RouterContext;
  readonly #patience: ResponseTimeout;
  readonly #times: HealthTimes;
  readonly #watched = new Map<string, ConnectionHealth>();
  readonly #checks: StorageChecks;
  #checkingNew = false;

  /** `patience` is for looks, `checking` for the drivers' checks, which may ask several things one after the other. */
  constructor(common: RouterContext, patience: ResponseTimeout, checking: ResponseTimeout, times: HealthTimes) {
    this.#checks = new StorageChecks(common, checking);
    this.#common = common;
    this.#patience = patience;
    this.#times = times;
  }

  /** Checks the storage of each connection that was opened, or whose file was changed, since its last check. Never throws. */
  async checkNew(call: Call): Promise<void> {
    if (this.#checkingNew) return;
    this.#checkingNew = true;
    const due = this.#common.connections.seen().filter(({ name, facts }) => {
      return facts !== undefined && this.#checks.of(name).state === "not-checked";
    });
    await mapLimit(due, width, ({ name }) =>
      this.#used(name, connection => this.#checks.check(connection, call), call),
    ).finally(() => {
      this.#checkingNew = false;
    });
  }

  /** One look at all connections; each change is a line of the log. What leads to volumes and was lost is mended. Never throws. */
  async survey(call: Call): Promise<void> {
    const { breakers, connections } = this.#common;
    const names = await connections.names().catch(() => []);
    const all = connections.seen();
    const known = new Set(all.map(({ name }) => name));
    for (const name of this.#watched.keys()) if (!known.has(name)) this.#watched.delete(name);
    this.#checks.keep(known);
    for (const { name, state } of all) {
      const watched = this.#of(name);
      watched.conditions.record(file, [...fileFindings(state), ...breakers.findings(name)]);
      // Nothing more is heard of what is behind it.
      if (state.kind === "gone" || (state.kind === "bad" && !state.served)) forgetStorage(watched);
    }
    await mapLimit(names, width, name => this.#survey(name, call));
  }

  /** What is wrong with a volume. Throws what keeps its storage from being looked at: that is no condition. */
  async volume(connection: Connection, id: string, call: Call): Promise<readonly Condition[]> {
    await this.refresh(connection, call);
    return this.known(connection.name, id);
  }

  /** As `volume`, from the last look, whenever that was. */
  known(connection: string, id: string): readonly Condition[] {
    const steady = this.#watched.get(connection)?.conditions;
    return steady ? [...steady.of(storage), ...steady.of(id)] : [];
  }

  /** What is wrong with a storage, and so with all its volumes. */
  ofStorage(connection: string): readonly Condition[] {
    return this.#watched.get(connection)?.conditions.of(storage) ?? [];
  }

  /** Ids of the volumes of which something else is known than of their storage, sorted. */
  unhealthy(connection: string): readonly string[] {
    const subjects = this.#watched.get(connection)?.conditions.subjects() ?? [];
    return subjects.filter(subject => subject !== storage && subject !== file);
  }

  /** Looks at the storage unless that was done lately. Throws why it cannot be looked at. */
  async refresh(connection: Connection, call: Call): Promise<void> {
    const watched = this.#of(connection.name);
    const { lookedAt, unknownReason: blind } = watched;
    const isFresh = lookedAt !== undefined && performance.now() - lookedAt < this.#times.fresh;
    // A storage that is away and could not be looked at is left to the rounds.
    if (blind !== undefined) await this.#common.breakers.refuse(connection.name);
    if (!isFresh || blind !== undefined) await this.#look(connection, call);
  }

  /** The volume was deleted. */
  forget({ connection, id }: Handle): void {
    this.#watched.get(connection)?.conditions.forget(id);
  }

  /** What is known of a connection at this moment; asks nobody. */
  view(name: string): HealthView {
    const watched = this.#watched.get(name);
    const check = this.#checks.of(name);
    if (!watched) return { conditions: [], volumes: [], storage: check };
    const { conditions: steady, unknownReason: blind } = watched;
    const volumes = this.unhealthy(name).map(id => {
      const volume = this.#common.handles.encode("volume", name, id);
      return { volume, conditions: steady.of(id) };
    });
    return {
      conditions: [...steady.of(file), ...steady.of(storage)],
      volumes,
      storage: check.state === "good" && blind ? blind : check,
    };
  }

  /** What leads a node of this segment to a volume of each connection that it reaches, as far as that is known. */
  examples(segment: Segments): readonly Context[] {
    const { connections, settings } = this.#common;
    return connections.seen().flatMap(({ name, facts }) => {
      const example = this.#watched.get(name)?.example;
      return example && facts && isReachableFrom(facts.accessibleTopology, segment, settings().policy) ? [example] : [];
    });
  }

  async #survey(name: string, call: Call): Promise<void> {
    const work = async (connection: Connection) => {
      if (!(await this.#checks.check(connection, call))) return this.#unseen(connection);
      await this.#look(connection, call);
      const { found, conditions: steady } = this.#of(name);
      await restoreExports(connection, found, (id, reason) => steady.of(id).some(each => each.reason === reason), call);
    };
    await this.#used(name, work, call);
  }

  /** A storage that does not answer its check is asked nothing else; what was found before stays. */
  #unseen({ name, driver }: Connection): void {
    if (driver.health) this.#of(name).unknownReason = this.#checks.of(name);
  }

  async #used(name: string, work: (connection: Connection) => Promise<unknown>, call: Call): Promise<void> {
    await this.#common.connections.useIfHealthy(name, work).catch((error: unknown) => {
      // Why a storage cannot be looked at is known by now; whatever else fails here is a defect, which must not end the round.
      if (error instanceof CsiError) return;
      call.log.error("a look at the health of a storage failed", { connection: name, reason: detailOf(error) });
    });
  }

  /** Looks that are wanted at the same time are one, which lives on when the caller that came first leaves. */
  async #look(connection: Connection, call: Call): Promise<void> {
    if (!connection.driver.health) return;
    const watched = this.#of(connection.name);
    await this.#common.jobs.run(`health of ${connection.name}`, "", call, own =>
      this.#lookNow(connection, watched, own),
    );
  }

  async #lookNow(connection: Connection, watched: ConnectionHealth, call: Call): Promise<void> {
    const { health } = connection.driver;
    if (!health) return;
    try {
      const look = () => this.#patience.ask(connection, call, own => health.look(own));
      const seenOf = await this.#common.breakers.look(connection, look);
      const found = { ...seenOf, volumes: joined([seenOf.volumes, this.#common.duplicates.findings(connection.name)]) };
      const isFirst = watched.lookedAt === undefined;
      watched.lookedAt = performance.now();
      watched.found = found.volumes;
      watched.example = found.example ?? watched.example;
      if (watched.failures >= tellingFailures)
        call.log.info("the health of a storage can be seen again", { connection: connection.name });
      watched.unknownReason = undefined;
      watched.failures = 0;
      this.#log(connection.name, record(watched.conditions, found, isFirst), call);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      watched.failures++;
      if (watched.failures === tellingFailures)
        call.log.warn("the health of a storage cannot be seen", { connection: connection.name, reason });
      watched.unknownReason = failedCheck(error);
      throw error;
    }
  }

  #of(name: string): ConnectionHealth {
    const known = this.#watched.get(name);
    if (known) return known;
    const conditions = new ConditionTracker(this.#times.hold);
    const fresh = {
      conditions,
      lookedAt: undefined,
      unknownReason: undefined,
      failures: 0,
      example: undefined,
      found: new Map(),
    };
    this.#watched.set(name, fresh);
    return fresh;
  }

  /** What is said against the file of a connection is not told here: it has its own lines in the log, at once. */
  #log(connection: string, changes: readonly Change[], call: Call): void {
    for (const { subject, reason, message, came } of changes) {
      const volume = subject === storage ? {} : { volume: this.#common.handles.encode("volume", connection, subject) };
      const what = subject === storage ? "a storage" : "a volume";
      const fields = { connection, ...volume, reason };
      if (came)
        call.log.warn(`${what} is ${severityWords[reasonText(reason).severity]}`, { ...fields, detail: message });
      else call.log.info(`${what} is no longer ${severityWords[reasonText(reason).severity]}`, fields);
    }
  }
}

/** Takes down what a look has found; volumes of which it says nothing are well. */
function record(
  steady: ConditionTracker,
  { storage: whole, volumes }: StorageFindings,
  isFirst: boolean,
): readonly Change[] {
  const subjects = new Set([...volumes.keys(), ...steady.tracked()]);
  subjects.delete(storage);
  subjects.delete(file);
  return [
    ...steady.record(storage, whole, isFirst),
    ...[...subjects].flatMap(id => steady.record(id, volumes.get(id) ?? [], isFirst)),
  ];
}

function forgetStorage(watched: ConnectionHealth): void {
  for (const subject of watched.conditions.tracked()) if (subject !== file) watched.conditions.forget(subject);
  watched.lookedAt = undefined;
  watched.unknownReason = undefined;
  watched.failures = 0;
}

/** What the file of a connection says against it. */
function fileFindings(state: ConnectionFileState): readonly Finding[] {
  if (state.kind === "good") return [];
  if (state.kind === "gone") return [{ reason: "FileGone", message: "its file was removed" }];
  return [{ reason: state.served ? "FileRejected" : "OutOfService", message: state.error.message }];
}
