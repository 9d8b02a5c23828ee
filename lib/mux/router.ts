import type { Segments } from "../core/access.ts";
import type { Call, Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { parseHandle } from "../core/handle.ts";
import { TryLocks } from "../core/locks.ts";
import type { Group } from "../core/proxy.ts";
import { mapLimit } from "../core/semaphore.ts";
import type { Context, InlineAbility } from "../drivers/driver.ts";
import { Capacity } from "./capacity.ts";
import { filesAtOnce } from "./connection.ts";
import type { Connections } from "./connections.ts";
import type { RouterContext, RouterSettings } from "./context.ts";
import type { Copies } from "./copies.ts";
import { type ConfiguredGroups, Groups } from "./groups.ts";
import { Handles } from "./handles.ts";
import { HealthMonitor, type HealthTimes } from "./health-monitor.ts";
import { inventory } from "./inventory.ts";
import { Jobs } from "./jobs.ts";
import { Listing } from "./listing.ts";
import { overview } from "./overview.ts";
import { ability } from "./placement.ts";
import { SkippedMembers } from "./skipped-members.ts";
import { GroupSnapshots, SnapshotMetadata, Snapshots } from "./snapshots.ts";
import { type ResponseTimes, StorageCalls } from "./storage-calls.ts";
import { Volumes } from "./volumes.ts";

/** What copies between connections use of the router. */
export type CopiesParts = Pick<RouterContext, "connections" | "calls" | "groups" | "handles">;

const usualHealth: HealthTimes = { hold: 45_000, fresh: 120_000 };

/**
 * The context of a driver name that stands for one connection. Jobs have keys of their own: equal ids mean other objects under another
 * name, so an answer must not reach a caller of that one.
 */
const scopedTo = (connection: string, context: RouterContext): RouterContext => ({
  ...context,
  handles: new Handles(
    () => connection,
    () => connection,
  ),
  jobs: { run: (key, ...rest) => context.jobs.run(`${key} (as the only connection "${connection}")`, ...rest) },
  settings: () => ({ ...context.settings(), legacyConnection: connection, single: connection }),
});

/** The id of an inline volume as its driver knows it: an alias puts its connection in front of that of the kubelet. */
function inlineId(name: string, id: string): string {
  const handle = parseHandle(id, "volume");
  return handle?.connection === name ? handle.id : id;
}

/**
 * Volumes that live with their pod, on the connection that the pod names, or that its driver name stands for (CSI ephemeral inline volumes
 * of Kubernetes).
 */
const inlineVolumes = ({ connections, settings }: RouterContext) => ({
  /** The connection that these attributes or the id name. Throws "invalid-argument" if they name none. */
  connectionOf(id: string, attributes: Context): string {
    const name = attributes["connection"] || parseHandle(id, "volume")?.connection || settings().single;
    if (name) return name;
    const text = 'the inline volume has no attribute "connection"; its pod must name one';
    throw new CsiError(
      "invalid-argument",
      `${text} of ZFS. NFS and other shares are not available inline: use a claim`,
    );
  },
  /** Like InlineAbility.make. */
  make: (name: string, id: string, ...args: ArgumentsAfterId<"make">) =>
    connections.use(name, "refuse", connection => ability(connection, "inline").make(inlineId(name, id), ...args)),
  /** Like InlineAbility.remove. While the connection cannot be used, the volume is not taken for gone. */
  remove: (name: string, id: string, ...args: ArgumentsAfterId<"remove">) =>
    connections.use(name, "retry", connection => ability(connection, "inline").remove(inlineId(name, id), ...args)),
  /**
   * The connection whose volume of this id has this source, and the identity of that; undefined if there is none. Throws "unavailable" while one
   * that may have it cannot be used, because the volume would be left behind then.
   */
  async owner(
    id: string,
    source: string,
    call: Call,
  ): Promise<{ readonly connection: string; readonly identity: string } | undefined> {
    const failures: unknown[] = [];
    const found = await mapLimit(await connections.names(), filesAtOnce, async connection => {
      const asked = connections.use(connection, "retry", async ({ driver }) =>
        driver.inline?.identityOf(inlineId(connection, id), source, call),
      );
      const identity = await asked.catch((error: unknown) => void failures.push(error));
      return identity === undefined ? [] : [{ connection, identity }];
    });
    const [owner] = found.flat();
    if (!owner && failures.length > 0) throw failures[0];
    return owner;
  },
});

type ArgumentsAfterId<A extends "make" | "remove"> =
  Parameters<InlineAbility[A]> extends [string, ...infer Rest] ? Rest : never;

/** What a router is opened with. Without `openCopies`, nothing is copied between connections. */
interface RouterParts<C extends Copies> {
  readonly connections: Connections;
  readonly configured: ConfiguredGroups;
  readonly settings: () => RouterSettings;
  readonly log: Log;
  readonly times?: Partial<ResponseTimes> | undefined;
  readonly healthTimes?: HealthTimes | undefined;
  /** How long a call waits for another operation on the same object, in milliseconds; 5 s if absent. */
  readonly waitMs?: number | undefined;
  readonly openCopies?: ((parts: CopiesParts) => C) | undefined;
}

/**
 * Opens the router over these connections and groups. A call runs as a job (jobs.ts), which holds its locks (core/locks.ts) and a lease
 * of its connection (connections.ts, pool.ts), and calls the driver with time limit and breaker (storage-calls.ts).
 */
export function openRouter<C extends Copies>(own: RouterParts<C>) {
  const { connections, configured, settings, log, times = {}, healthTimes = usualHealth, openCopies } = own;
  const jobs = new Jobs(own.waitMs);
  const calls = new StorageCalls(connections, times, log);
  const groups = new Groups(connections, configured);
  const locks = new TryLocks();
  const skipped = new SkippedMembers({ connections, locks, calls });
  const handles = new Handles(
    () => settings().legacyConnection ?? settings().single,
    () => settings().single,
  );
  const copies = openCopies?.({ connections, calls, groups, handles });
  const context: RouterContext = { connections, calls, groups, handles, locks, jobs, skipped, settings, copies };
  const health = new HealthMonitor(context, healthTimes);
  const parts = (own: RouterContext) => ({
    volumes: new Volumes(own, health),
    snapshots: new Snapshots(own),
    listing: new Listing(own, health),
    capacity: new Capacity(own),
    groupSnapshots: new GroupSnapshots(own),
    snapshotMetadata: new SnapshotMetadata(own),
  });
  return {
    ...parts(context),
    inline: inlineVolumes(context),
    /**
     * The same for a driver name that stands for one connection: classes need not name it, ids without a prefix belong to it, and new
     * ids have none. Locks are shared, so that a volume is never changed under two names at once.
     */
    scopedTo: (connection: string) => parts(scopedTo(connection, context)),
    /** The present state with these groups. */
    overview: (groups: ReadonlyMap<string, Group>) =>
      overview({ connections, jobs, health, copies: copies?.view() }, groups, settings().policy.prefix),
    /** Like inventory(), at once for all who ask at the same time. */
    inventory: (call: Call) => jobs.run("inventory", "", call, own => inventory(context, own)),
    /** Checks the health of all storage systems once; each change is a line of the log. */
    checkHealth: (call: Call) => health.survey(call),
    /** Like SkippedMembers.round; the health of the volumes that it finds is known after the next check. */
    askSkipped: (call: Call) => skipped.round(call),
    /** Checks the storage systems of connections that are new or were changed. */
    checkNew: (call: Call) => health.checkNew(call),
    /** Like HealthMonitor.examples. */
    examples: (segment: Segments) => health.examples(segment),
    copies,
    /** Aborts all jobs and waits up to `limitMs` milliseconds. Returns the keys of those still running. */
    stop: async (limitMs: number) => {
      calls.close();
      const [left] = await Promise.all([jobs.stop(limitMs), copies?.stop(limitMs)]);
      return left;
    },
  };
}
