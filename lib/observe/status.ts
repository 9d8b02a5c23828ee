import type { CopiesView } from "../copies/progress.ts";
import { parseHandle } from "../core/handle.ts";
import type { ConnectionInventory } from "../mux/inventory.ts";
import type { ConnectionView, RouterView } from "../mux/overview.ts";
import type { CallTracker, LastCall, LastFailure } from "./call-tracker.ts";
import { type HealthStatus, healthOf, type NodeHealthView } from "./health.ts";

/** Facts about the process. */
export interface ProcessFacts {
  readonly name: string;
  readonly version: string;
  readonly commit: string;
  readonly modes: readonly string[];
  /** The name of the machine, which is that of the pod in Kubernetes; undefined if unknown. */
  readonly host?: string | undefined;
  readonly node: string | undefined;
  /** Other driver names that it serves, each for one connection. */
  readonly aliases?: readonly { readonly name: string; readonly connection: string }[];
  /** When it started (Date.now()). */
  readonly started: number;
}

/** A figure recorded earlier; `at` is an RFC 3339 timestamp. */
interface TimedFigure {
  readonly value: number;
  readonly at: string;
}

/** A call with RFC 3339 timestamps. */
type Timed<T extends LastCall> = Omit<T, "at"> & { readonly at: string };

/** One connection. Times are RFC 3339 timestamps, sizes are bytes. Unknown values are absent. */
export interface ConnectionStatus extends Partial<Pick<ConnectionView, "problem" | "defect" | "driver" | "pool">> {
  readonly name: string;
  /**
   * The worst of the states of its file and its storage system: "bad" or "gone" (file), "unreachable", "login-refused" or "unusable"
   * (storage), "degraded" (file), "not-checked" (storage), "good". "unknown" in a process without connection files: a node knows only the
   * connections of its volumes.
   */
  readonly state: FileState | StorageState | "unknown";
  /** Since when it has this state. */
  readonly since?: string | undefined;
  /** The state of its file; absent if `state` is "unknown". */
  readonly file?: { readonly state: FileState; readonly since: string } | undefined;
  readonly suspended: boolean;
  readonly accessibleTopology: readonly string[];
  readonly inUse: number;
  readonly freeBytes?: TimedFigure | undefined;
  readonly volumes?: TimedFigure | undefined;
  readonly lastSuccess?: Timed<LastCall> | undefined;
  readonly lastFailure?: Timed<LastFailure> | undefined;
  /** The last failure caused by the storage system, not by the request. */
  readonly lastStorageFailure?: Timed<LastFailure> | undefined;
  /** Its storage system is unreachable: calls that need it are refused until a check succeeds. */
  readonly outage?: { readonly since: string; readonly next: string; readonly reason: string } | undefined;
  /** Whether its storage system can be used; absent if that cannot be known: without a valid file, and on nodes. */
  readonly storage?: StorageStatus | undefined;
  /** Why the health of its storage system is outdated: the reason in `storage`. */
  readonly healthProblem?: string | undefined;
}

type FileState = ConnectionView["state"];
type StorageState = ConnectionView["health"]["storage"]["state"];

/** The result of the last check of a connection's storage system. Times are RFC 3339 timestamps. */
export interface StorageStatus {
  readonly state: StorageState;
  /** Absent before the first check. */
  readonly at?: string | undefined;
  /** Since when it has this state; absent before the first check. */
  readonly since?: string | undefined;
  readonly reason?: string | undefined;
}

/** The output of `csimux status --output json`. Fields may be added, but not removed. */
export interface Status {
  readonly name: string;
  readonly version: string;
  readonly commit: string;
  readonly modes: readonly string[];
  /** The name of the machine: in Kubernetes, of the pod. */
  readonly host?: string | undefined;
  readonly node?: string | undefined;
  readonly aliases?: ProcessFacts["aliases"];
  readonly started: string;
  readonly now: string;
  /** Why the folder of connection files cannot be read; absent if it can. */
  readonly folderProblem?: string | undefined;
  /** Why the main file cannot be used, so that its last valid version is, or what is wrong with it; absent if it is right. */
  readonly mainProblem?: string | undefined;
  readonly connections: readonly ConnectionStatus[];
  readonly groups: RouterView["groups"];
  /** All active conditions of storage systems and volumes. */
  readonly health: readonly HealthStatus[];
  readonly calls: readonly {
    readonly method: string;
    readonly connection?: string | undefined;
    readonly object?: string | undefined;
    readonly since: string;
  }[];
  readonly jobs: readonly { readonly what: string; readonly since: string }[];
  /** Absent in a process without connections. */
  readonly copies?: CopiesView["running"] | undefined;
  readonly copied?: CopiesView["copied"] | undefined;
}

/** Further details of the process, for bug reports. */
export interface RunningDetails {
  /** The main file, as an absolute path. */
  readonly config: string;
  /** The state folder of the node. */
  readonly state: string;
  /** The prefix of csimux's own topology keys, without the slash. */
  readonly prefix: string;
  /** The address of the metrics; undefined if they are off. */
  readonly metrics: { readonly host: string; readonly port: number } | undefined;
  /** The last lines of the log, the oldest first. */
  readonly log: readonly string[];
}

/** The data sent by the status socket. */
export interface StatusAnswer extends Status {
  readonly details: RunningDetails;
  /** The volumes that are staged on this node; absent in a process without a node, and if their records cannot be read. */
  readonly staged?: readonly string[] | undefined;
  /** The initiator name and host NQN by which storage systems know this node, as far as its volumes use them; absent without a node. */
  readonly initiators?: readonly string[] | undefined;
  /** Only on request, and not known to a process without connections. */
  readonly inventory?: readonly ConnectionInventory[] | undefined;
}

const time = (ms: number): string => new Date(ms).toISOString();

/** The state of the halves of a process; each is absent if the process lacks that half. */
export interface StatusSources {
  readonly mux?: RouterView | undefined;
  readonly node?: NodeHealthView | undefined;
  /** Like Status.folderProblem. */
  readonly folderProblem?: string | undefined;
  /** Like Status.mainProblem. */
  readonly mainProblem?: string | undefined;
  /** The only connection, whose ids have no prefix. */
  readonly single?: string | undefined;
}

/** The present status of the process. Sends no request to any storage system. */
export function statusOf(
  facts: ProcessFacts,
  { mux: view, node, folderProblem, mainProblem, single }: StatusSources,
  ledger: CallTracker,
): Status {
  const { started, ...rest } = facts;
  return {
    ...rest,
    started: time(started),
    now: time(Date.now()),
    folderProblem,
    mainProblem,
    connections: view ? view.connections.map(each => connectionStatus(each, ledger)) : metOn(ledger),
    groups: view?.groups ?? [],
    health: healthOf(view, node, volume => parseHandle(volume, "volume")?.connection ?? single),
    calls: ledger.running().map(({ since, ...call }) => ({ ...call, since: time(since) })),
    jobs: (view?.jobs ?? []).map(({ what, since }) => ({ what, since: time(since) })),
    copies: view?.copies?.running,
    copied: view?.copies?.copied,
  };
}

/** The state of a connection, and since when it has it: good since both its file and its storage are. */
function stateOf(file: NonNullable<ConnectionStatus["file"]>, storage: StorageStatus | undefined) {
  if (storage === undefined) return file;
  if (storage.state === "good") {
    const isLater = file.state === "good" && storage.since !== undefined && storage.since > file.since;
    return isLater ? { state: file.state, since: storage.since } : file;
  }
  return storage.state === "not-checked" && file.state === "degraded"
    ? file
    : { state: storage.state, since: storage.since ?? file.since };
}

function connectionStatus(view: ConnectionView, ledger: CallTracker): ConnectionStatus {
  const { state, since, free, volumes, outage, health: _, accessibleTopology, ...rest } = view;
  const storage = storageStatus(view);
  const file = { state, since: time(since) };
  return {
    ...rest,
    ...stateOf(file, storage),
    file,
    accessibleTopology,
    freeBytes: free && { value: Number(free.value), at: time(free.at) },
    volumes: volumes && { value: volumes.value, at: time(volumes.at) },
    outage: outage && {
      since: time(outage.since),
      next: time(Date.now() + (outage.nextInMs ?? 0)),
      reason: outage.reason,
    },
    storage,
    healthProblem: storage?.reason,
    ...lastCalls(view.name, ledger),
  };
}

function storageStatus({ state: of, outage, health }: ConnectionView): StorageStatus | undefined {
  if (of === "bad" || of === "gone") return undefined;
  const { state, at, since, reason } = health.storage;
  // The breaker has noticed before the next check.
  if (outage && (state === "good" || state === "not-checked"))
    return { state: "unreachable", at: time(outage.since), since: time(outage.since), reason: outage.reason };
  const first = state === "unreachable" && outage ? Math.min(outage.since, since ?? outage.since) : since;
  return {
    state,
    at: at === undefined ? undefined : time(at),
    since: first === undefined ? undefined : time(first),
    reason,
  };
}

const metOn = (ledger: CallTracker): readonly ConnectionStatus[] =>
  [...ledger.names()].sort().map(name => ({
    name,
    state: "unknown",
    suspended: false,
    accessibleTopology: [],
    inUse: 0,
    ...lastCalls(name, ledger),
  }));

function lastCalls(name: string, ledger: CallTracker) {
  const { success, failure, storageFailure } = ledger.of(name);
  return {
    lastSuccess: success && { ...success, at: time(success.at) },
    lastFailure: failure && { ...failure, at: time(failure.at) },
    lastStorageFailure: storageFailure && { ...storageFailure, at: time(storageFailure.at) },
  };
}
