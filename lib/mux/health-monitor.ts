import type { Segments } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import { CsiError, detailOf, messageOf } from "../core/errors.ts";
import type { Handle } from "../core/handle.ts";
import { mapLimit } from "../core/semaphore.ts";
import type { Context, StorageFindings } from "../drivers/driver.ts";
import { type Change, type Condition, ConditionTracker } from "../health/condition-tracker.ts";
import { joined } from "../health/finding.ts";
import { reasonText, severityWords } from "../health/reasons.ts";
import { isReachableFrom } from "../topology/accessible-topology.ts";
import type { CheckResult, Connection, ConnectionHealth, ConnectionRecord } from "./connection.ts";
import type { RouterContext } from "./context.ts";
import { ability } from "./placement.ts";
import { connectionsAtOnce } from "./storage-calls.ts";
import { checkKey, checkStorage, isPresent, restoreExports } from "./storage-checks.ts";
import { checkResult } from "./unusable.ts";

/** The subject that is not a volume, whose id is never empty. */
const storage = "";

/** The number of failed checks in a row that is logged, so that an occasionally slow storage system does not flood the log. */
const loggedFailures = 2;

/** How often storage systems are checked. */
export interface HealthTimes {
  /** How long a cause must last, and be gone, in milliseconds. */
  readonly hold: number;
  /** The largest age of a check that is reported, in milliseconds. */
  readonly fresh: number;
}

/** The health of one connection for people. */
export interface HealthView {
  /** Of its storage system. */
  readonly conditions: readonly Condition[];
  readonly volumes: readonly { readonly volume: string; readonly conditions: readonly Condition[] }[];
  /** Whether the storage system can be used, according to the last check. */
  readonly storage: CheckResult;
}

/**
 * The conditions of storage systems and volumes. The driver checks its storage system as a whole, and answers use
 * the results, so a listing sends no request about single volumes.
 */
export class HealthMonitor {
  readonly #context: RouterContext;
  readonly #times: HealthTimes;
  #checkingNew = false;

  constructor(context: RouterContext, times: HealthTimes) {
    this.#context = context;
    this.#times = times;
  }

  /** Checks the storage system of each connection that was opened, or whose file was changed, since its last check. Never throws. */
  async checkNew(call: Call): Promise<void> {
    if (this.#checkingNew) return;
    this.#checkingNew = true;
    const due = this.#context.connections.seen().filter(({ lastValid, check }) => lastValid && check.at === undefined);
    await mapLimit(due, connectionsAtOnce, ({ name }) =>
      this.#used(name, each => checkStorage(this.#context, each, call), call),
    ).finally(() => {
      this.#checkingNew = false;
    });
  }

  /** Checks all connections and restores missing exports; each change is a line of the log. Never throws. */
  async survey(call: Call): Promise<void> {
    const { connections } = this.#context;
    const names = await connections.names().catch(() => []);
    // Nothing is known any more about what is behind a connection without a valid file.
    for (const { health, state } of connections.seen())
      if (health && (state === "gone" || state === "bad")) forgetStorage(health);
    await mapLimit(names, connectionsAtOnce, name => this.#used(name, each => this.#survey(each, call), call));
  }

  /**
   * The conditions of a volume. Throws why its storage system cannot be checked, which is not a condition, and
   * "invalid-argument" if the driver has no check.
   */
  async volume(connection: Connection, id: string, call: Call): Promise<readonly Condition[]> {
    ability(connection, "health");
    await this.refresh(connection, call);
    return this.known(connection.name, id);
  }

  /** Like `volume`, from the last check, whenever that was. */
  known(name: string, id: string): readonly Condition[] {
    const conditions = this.#healthOf(name)?.conditions;
    return conditions ? [...conditions.of(storage), ...conditions.of(id)] : [];
  }

  /** The conditions of a storage system, and so of all its volumes. */
  ofStorage(name: string): readonly Condition[] {
    return this.#healthOf(name)?.conditions.of(storage) ?? [];
  }

  /** The ids of volumes with conditions of their own, sorted. */
  unhealthy(name: string): readonly string[] {
    const subjects = this.#healthOf(name)?.conditions.subjects() ?? [];
    return subjects.filter(subject => subject !== storage);
  }

  /** Checks the storage system unless that was done lately. Throws why it cannot be checked. */
  async refresh(opened: Connection, call: Call): Promise<void> {
    const { checkedAt, unknownReason } = this.#healthOf(opened.name) ?? {};
    const isFresh = checkedAt !== undefined && performance.now() - checkedAt < this.#times.fresh;
    // One that is unreachable and could not be checked is left to the rounds.
    if (unknownReason) await this.#context.calls.refuse(opened.name);
    if (!isFresh || unknownReason) await this.#check(opened, call);
  }

  /** The volume was deleted. */
  forget({ connection: name, id }: Handle): void {
    this.#healthOf(name)?.conditions.forget(id);
  }

  /** What is known of a connection. Sends no request. */
  view({ name, health, check }: ConnectionRecord): HealthView {
    if (!health) return { conditions: [], volumes: [], storage: check };
    const { conditions, unknownReason } = health;
    const volumes = this.unhealthy(name).map(id => {
      const volume = this.#context.handles.encode("volume", name, id);
      return { volume, conditions: conditions.of(id) };
    });
    return {
      conditions: conditions.of(storage),
      volumes,
      storage: check.state === "good" && unknownReason ? unknownReason : check,
    };
  }

  /** For each connection that a node of this segment reaches, the context of one of its volumes, if known. */
  examples(segment: Segments): readonly Context[] {
    const { connections, settings } = this.#context;
    return connections.seen().flatMap(({ lastValid, health }) => {
      const reachable = lastValid && isReachableFrom(lastValid.facts.accessibleTopology, segment, settings().policy);
      return reachable && health?.example ? [health.example] : [];
    });
  }

  async #survey(opened: Connection, call: Call): Promise<void> {
    const isReachable = await checkStorage(this.#context, opened, call);
    const record = this.#context.connections.record(opened.name);
    if (!record) return;
    const health = this.#of(record);
    // One that does not answer its check gets no other request; earlier findings stay.
    if (!isReachable && opened.driver.health) health.unknownReason = record.check;
    if (!isReachable) return;
    await this.#check(opened, call);
    const { found, conditions } = health;
    const holds = (id: string, reason: string) => conditions.of(id).some(each => each.reason === reason);
    await restoreExports(opened, found, holds, this.#context.locks, call);
  }

  async #used(name: string, work: (opened: Connection) => Promise<unknown>, call: Call): Promise<void> {
    await this.#context.connections.useIfHealthy(name, work).catch((error: unknown) => {
      // A CsiError is recorded by now; anything else is a defect, which must not end the round.
      if (error instanceof CsiError) return;
      call.log.error("a check of the health of a storage failed", { connection: name, reason: detailOf(error) });
    });
  }

  /** Joins checks that are wanted at the same time; they continue when the first caller leaves. */
  async #check(opened: Connection, call: Call): Promise<void> {
    const record = this.#context.connections.record(opened.name);
    if (!opened.driver.health || !record) return;
    const health = this.#of(record);
    await this.#context.jobs.run(checkKey("health", opened), "", call, own => this.#checkNow(opened, health, own));
  }

  async #checkNow(opened: Connection, health: ConnectionHealth, call: Call): Promise<void> {
    const { name, driver } = opened;
    const { calls, skipped, connections } = this.#context;
    try {
      const look = async (own: Call) => driver.health?.look(own);
      const found = await calls.probe("health", opened, call, look);
      if (!found || !isPresent(connections.record(name), opened)) return;
      const volumes = joined([found.volumes, skipped.findings(name)]);
      const isFirst = health.checkedAt === undefined;
      health.checkedAt = performance.now();
      health.found = volumes;
      health.example = found.example ?? health.example;
      if (health.failures >= loggedFailures)
        call.log.info("the health of a storage can be checked again", { connection: name });
      health.unknownReason = undefined;
      health.failures = 0;
      this.#log(name, record(health.conditions, { ...found, volumes }, isFirst), call);
    } catch (error) {
      if (!isPresent(connections.record(name), opened)) throw error;
      const reason = messageOf(error);
      health.failures++;
      if (health.failures === loggedFailures)
        call.log.warn("cannot check the health of a storage", { connection: name, reason });
      health.unknownReason = checkResult(error, health.unknownReason);
      throw error;
    }
  }

  #healthOf(name: string): ConnectionHealth | undefined {
    return this.#context.connections.record(name)?.health;
  }

  #of(record: ConnectionRecord): ConnectionHealth {
    record.health ??= {
      conditions: new ConditionTracker(this.#times.hold),
      checkedAt: undefined,
      unknownReason: undefined,
      failures: 0,
      example: undefined,
      found: new Map(),
    };
    return record.health;
  }

  /** Logs changes of storage systems and volumes. */
  #log(name: string, changes: readonly Change[], call: Call): void {
    for (const { subject, reason, message, came } of changes) {
      const volume = subject === storage ? {} : { volume: this.#context.handles.encode("volume", name, subject) };
      const what = subject === storage ? "a storage" : "a volume";
      const fields = { connection: name, ...volume, reason };
      const severity = severityWords[reasonText(reason).severity];
      if (came) call.log.warn(`${what} is ${severity}`, { ...fields, detail: message });
      else call.log.info(`${what} is no longer ${severity}`, fields);
    }
  }
}

/** Records the findings of one check; volumes without findings are healthy. */
function record(
  conditions: ConditionTracker,
  { storage: whole, volumes }: StorageFindings,
  isFirst: boolean,
): readonly Change[] {
  const subjects = new Set([...volumes.keys(), ...conditions.tracked()]);
  subjects.delete(storage);
  return [
    ...conditions.record(storage, whole, isFirst),
    ...[...subjects].flatMap(id => conditions.record(id, volumes.get(id) ?? [], isFirst)),
  ];
}

function forgetStorage(health: ConnectionHealth): void {
  for (const subject of health.conditions.tracked()) health.conditions.forget(subject);
  health.checkedAt = undefined;
  health.unknownReason = undefined;
  health.failures = 0;
}
