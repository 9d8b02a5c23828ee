import { parseHandle } from "../core/handle.ts";
import type { MuxView, Standing } from "../mux/overview.ts";
import { type HealthStatus, healthOf, type NodeHealthView } from "./health.ts";
import type { LastCall, LastFailure, Ledger } from "./ledger.ts";

/** Who runs. */
export interface ProcessFacts {
  readonly name: string;
  readonly version: string;
  readonly commit: string;
  readonly modes: readonly string[];
  readonly node: string | undefined;
  /** Other names that it answers to, each for one connection. */
  readonly aliases?: readonly { readonly name: string; readonly connection: string }[];
  /** When it started (Date.now()). */
  readonly started: number;
}

/** A figure that was told earlier; `at` is a time as RFC 3339 has it. */
interface Told {
  readonly value: number;
  readonly at: string;
}

/** A call, with times as RFC 3339 has them. */
type Timed<T extends LastCall> = Omit<T, "at"> & { readonly at: string };

/** One connection. Every time is as RFC 3339 has it, sizes are in bytes. What is not known is absent. */
export interface ConnectionStatus {
  readonly name: string;
  /** "unknown" in a process that has no connection files: a node knows only the connections of its volumes. */
  readonly state: Standing | "unknown";
  readonly since?: string | undefined;
  /** What is wrong with its file and where. */
  readonly problem?: string | undefined;
  readonly driver?: string | undefined;
  readonly suspended: boolean;
  readonly places: readonly string[];
  readonly inUse: number;
  readonly freeBytes?: Told | undefined;
  readonly volumes?: Told | undefined;
  readonly lastSuccess?: Timed<LastCall> | undefined;
  readonly lastFailure?: Timed<LastFailure> | undefined;
  /** The last failure that says something about the storage, not about what the caller asked for. */
  readonly lastStorageFailure?: Timed<LastFailure> | undefined;
  /** Its storage is away: calls that need it are refused until it was asked again, and is back. */
  readonly outage?: { readonly since: string; readonly next: string; readonly reason: string } | undefined;
  /** Whether its storage can be used; absent where nobody can know: without a usable file, and on nodes. */
  readonly storage?: StorageStatus | undefined;
  /** Why nothing newer is known of the health of its storage: the reason in `storage`. */
  readonly healthProblem?: string | undefined;
}

type StorageState = MuxView["connections"][number]["health"]["storage"]["state"];

/** How the storage of a connection was found when it was last asked. Times are as RFC 3339 has them. */
export interface StorageStatus {
  readonly state: StorageState;
  /** Absent before the first check. */
  readonly at?: string | undefined;
  readonly reason?: string | undefined;
}

/** What `csimux status --output json` prints. Fields may be added; those that are here stay. */
export interface Status {
  readonly name: string;
  readonly version: string;
  readonly commit: string;
  readonly modes: readonly string[];
  readonly node?: string | undefined;
  readonly aliases?: ProcessFacts["aliases"];
  readonly started: string;
  readonly now: string;
  /** Why the folder of connection files cannot be read; absent while it can. */
  readonly folderProblem?: string | undefined;
  readonly connections: readonly ConnectionStatus[];
  readonly groups: MuxView["groups"];
  /** All that is known to be wrong with connections, storages and volumes. */
  readonly health: readonly HealthStatus[];
  readonly calls: readonly {
    readonly method: string;
    readonly connection?: string | undefined;
    readonly object?: string | undefined;
    readonly since: string;
  }[];
  readonly jobs: readonly { readonly what: string; readonly since: string }[];
}

/** What else the process tells of itself, for a report of a fault. */
export interface RunningDetails {
  /** The main file, as an absolute path. */
  readonly config: string;
  /** The folder of what a node remembers. */
  readonly state: string;
  /** Where metrics are served; undefined: nowhere. */
  readonly metrics: { readonly host: string; readonly port: number } | undefined;
  /** The last lines of the log, the oldest first. */
  readonly log: readonly string[];
}

/** What comes out of the status socket. */
export interface StatusAnswer extends Status {
  readonly details: RunningDetails;
}

const time = (ms: number): string => new Date(ms).toISOString();

/** What the halves of a process see; each is absent in a process that does not have it. */
export interface Views {
  readonly mux?: MuxView | undefined;
  readonly node?: NodeHealthView | undefined;
  /** As Status.folderProblem. */
  readonly folderProblem?: string | undefined;
  /** The only connection, whose ids have no prefix. */
  readonly single?: string | undefined;
}

/** The process at this moment. Asks nobody. */
export function statusOf(
  facts: ProcessFacts,
  { mux: view, node, folderProblem, single }: Views,
  ledger: Ledger,
): Status {
  const { started, ...rest } = facts;
  return {
    ...rest,
    started: time(started),
    now: time(Date.now()),
    folderProblem,
    connections: view ? view.connections.map(each => connectionStatus(each, ledger)) : metOn(ledger),
    groups: view?.groups ?? [],
    health: healthOf(view, node, volume => parseHandle(volume, "volume")?.connection ?? single),
    calls: ledger.running().map(({ since, ...call }) => ({ ...call, since: time(since) })),
    jobs: (view?.jobs ?? []).map(({ what, since }) => ({ what, since: time(since) })),
  };
}

function connectionStatus(view: MuxView["connections"][number], ledger: Ledger): ConnectionStatus {
  const { standing, since, free, volumes, outage, health: _, ...rest } = view;
  const storage = storageStatus(view);
  return {
    ...rest,
    state: standing,
    since: time(since),
    freeBytes: free && { value: Number(free.value), at: time(free.at) },
    volumes: volumes && { value: volumes.value, at: time(volumes.at) },
    outage: outage && { since: time(outage.since), next: time(outage.next), reason: outage.reason },
    storage,
    healthProblem: storage?.reason,
    ...lastCalls(view.name, ledger),
  };
}

function storageStatus({ standing, outage, health }: MuxView["connections"][number]): StorageStatus | undefined {
  if (standing === "bad" || standing === "gone") return undefined;
  const { state, at, reason } = health.storage;
  // The breaker has noticed before the next check.
  if (outage && (state === "good" || state === "not-checked"))
    return { state: "unreachable", at: time(outage.since), reason: outage.reason };
  return { state, at: at === undefined ? undefined : time(at), reason };
}

const metOn = (ledger: Ledger): readonly ConnectionStatus[] =>
  [...ledger.names()]
    .sort()
    .map(name => ({ name, state: "unknown", suspended: false, places: [], inUse: 0, ...lastCalls(name, ledger) }));

function lastCalls(name: string, ledger: Ledger) {
  const { success, failure, storageFailure } = ledger.of(name);
  return {
    lastSuccess: success && { ...success, at: time(success.at) },
    lastFailure: failure && { ...failure, at: time(failure.at) },
    lastStorageFailure: storageFailure && { ...storageFailure, at: time(storageFailure.at) },
  };
}
