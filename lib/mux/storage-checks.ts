import type { Call } from "../core/call.ts";
import { CsiError, detailOf, hasCode, messageOf } from "../core/errors.ts";
import type { TryLocks } from "../core/locks.ts";
import type { VolumeFindings } from "../health/finding.ts";
import type { Reason } from "../health/reasons.ts";
import type { CheckResult, Connection, ConnectionRecord, StorageState } from "./connection.ts";
import type { RouterContext } from "./context.ts";
import { lockKey } from "./handles.ts";
import { checkResult } from "./unusable.ts";

const openings = new WeakMap<Connection, number>();
let opened = 0;

/**
 * The key of a check of an opened connection. Its file may have been changed since another one began, which is of another storage system
 * then, and must not answer for this one.
 */
export function checkKey(what: string, connection: Connection): string {
  const number = openings.get(connection) ?? ++opened;
  openings.set(connection, number);
  return `${what} of ${connection.name} (opened as ${number})`;
}

/** Whether an opened connection is the one of the present file: what was found with another one is not recorded. */
export const isPresent = (record: ConnectionRecord | undefined, connection: Connection): record is ConnectionRecord =>
  record?.open?.connection === connection;

/**
 * Runs the driver's own check (Driver.check): whether the storage system is reachable, lets csimux in, and has what the file names. Each
 * change of the result is one line of the log. Returns whether it answers at all; only then are further requests worthwhile.
 */
export async function checkStorage(
  { calls, connections, jobs }: Pick<RouterContext, "calls" | "connections" | "jobs">,
  connection: Connection,
  call: Call,
): Promise<boolean> {
  const { name, driver } = connection;
  const record = connections.record(name);
  const check = (own: Call) => calls.probe("check", connection, own, async timed => driver.check?.(timed));
  const error = await jobs.run(checkKey("check", connection), "", call, check).then(
    () => undefined,
    (cause: unknown) => cause ?? new CsiError("internal", "unexpected failure; see the log"),
  );
  // The end of the process, or of the round, says nothing about the storage system.
  if (error !== undefined && call.signal.aborted) return false;
  if (error !== undefined && !(error instanceof CsiError))
    call.log.error("the check of a storage failed", { connection: name, reason: detailOf(error) });
  const result = checkResult(error, record?.check);
  if (isPresent(record, connection)) {
    record.check = result;
    if (driver.check) log(record, result, call);
  }
  return result.state !== "unreachable";
}

function log(record: ConnectionRecord, { state, reason }: CheckResult, call: Call): void {
  const { name: connection, loggedCheck: before } = record;
  if (before === state) return;
  record.loggedCheck = state;
  const isFirst = state === "good" && before === undefined;
  const text = `connection "${connection}": its storage ${isFirst ? "was checked and can be used" : words[state]}`;
  if (state === "good") call.log.info(text, { connection });
  else call.log.warn(text, { connection, reason });
}

const words: Readonly<Record<StorageState, string>> = {
  "not-checked": "has not been checked yet",
  good: "can be used again",
  unreachable: "cannot be reached",
  "login-refused": "refuses the login",
  unusable: "cannot be used",
};

/** Problems that csimux can repair: the data exists, only the export or target is missing. */
const restorable: ReadonlySet<Reason> = new Set<Reason>(["TargetMissing", "ShareMissing"]);

/** The time limit of one round of repairs, in milliseconds; the next one continues. */
const roundMs = 30_000;

/**
 * Restores missing exports and targets: a storage host that was reset without its configuration has everything else. Only for
 * conditions that last (`holds`), since a volume that is being deleted loses its target first. Never throws; the first failure ends the
 * round, unless it concerns one volume ("failed-precondition").
 */
export async function restoreExports(
  { name, driver: { health } }: Connection,
  found: VolumeFindings,
  holds: (id: string, reason: Reason) => boolean,
  locks: TryLocks,
  call: Call,
): Promise<void> {
  if (!health?.restore) return;
  const end = performance.now() + roundMs;
  for (const [id, findings] of found) {
    const lost = findings.find(({ reason }) => restorable.has(reason) && holds(id, reason));
    if (!lost) continue;
    if (performance.now() > end || call.signal.aborted) return;
    const fields = { connection: name, volume: id, reason: lost.reason };
    try {
      // Another driver of the same connection may be deleting the volume, if its file was changed.
      using _held = locks.lock([lockKey({ kind: "volume", connection: name, id })]);
      await health.restore(id, call);
      call.log.info("restored the missing export or target of a volume", fields);
    } catch (error) {
      call.log.warn("cannot restore the missing export or target of a volume", {
        ...fields,
        detail: messageOf(error),
      });
      // A person is in the way of this volume only.
      if (!hasCode(error, "failed-precondition")) return;
    }
  }
}
