import type { Segments } from "../core/access.ts";
import type { Call, Log } from "../core/call.ts";
import { TryLocks } from "../core/locks.ts";
import type { Group } from "../core/proxy.ts";
import { Breakers } from "./breakers.ts";
import { Capacity } from "./capacity.ts";
import type { Connections } from "./connections.ts";
import { CreateAttempts } from "./create-attempts.ts";
import { DuplicateVolumes } from "./duplicate-volumes.ts";
import { FreeSpace } from "./free-space.ts";
import { GroupSnapshots } from "./group-snapshots.ts";
import { type ConfiguredGroups, Groups } from "./groups.ts";
import { Handles } from "./handles.ts";
import { HealthMonitor, type HealthTimes } from "./health-monitor.ts";
import { Jobs } from "./jobs.ts";
import { Listing } from "./listing.ts";
import { Lookup } from "./lookup.ts";
import { overview } from "./overview.ts";
import { ResponseTimeout } from "./response-timeout.ts";
import type { RouterSettings } from "./routed.ts";
import type { RouterContext } from "./router-context.ts";
import { SkippedMembers } from "./skipped-members.ts";
import { Snapshots } from "./snapshots.ts";
import { StorageFigures } from "./storage-figures.ts";
import { Volumes } from "./volumes.ts";

/** How long a connection may take, in milliseconds; less than the 15 s that sidecars wait. */
export interface ResponseTimes {
  /** To look one volume up, or to list all. */
  readonly look: number;
  /** To tell its capacity. */
  readonly capacity: number;
}

const usual: ResponseTimes = { look: 10_000, capacity: 5_000 };

/**
 * What a driver's name that stands for one connection shares with the others. Its jobs are its own, and those of its connection:
 * the same words name other ids under another name, so an answer must not reach a caller who used another one.
 */
const scopedToConnection = (common: RouterContext, connection: string): RouterContext => ({
  ...common,
  handles: new Handles(
    () => connection,
    () => connection,
  ),
  jobs: { run: (key, ...rest) => common.jobs.run(`${key} (as the only connection "${connection}")`, ...rest) },
  settings: () => ({ ...common.settings(), legacyConnection: connection, single: connection }),
});

/** Where nobody says how often storages are looked at. */
const usualHealth: HealthTimes = { hold: 45_000, fresh: 120_000 };

/** The router over these connections and groups, whole. `stop` aborts what is running and waits for it to end. */
export function openRouter(
  connections: Connections,
  configured: ConfiguredGroups,
  settings: () => RouterSettings,
  log: Log,
  { look, capacity }: ResponseTimes = usual,
  times: HealthTimes = usualHealth,
) {
  const jobs = new Jobs();
  const breakers = new Breakers(connections, log);
  const patient = (ms: number) =>
    new ResponseTimeout(
      ms,
      (connection, work) => connections.keep(connection, work),
      connection => breakers.late(connection),
    );
  const groups = new Groups(connections, configured);
  const locks = new TryLocks();
  const lookup = new Lookup(patient(look), breakers);
  const skipped = new SkippedMembers({ connections, locks, lookup });
  const twins = new DuplicateVolumes({ breakers, connections, groups, patience: patient(look), skipped });
  const common: RouterContext = {
    connections,
    breakers,
    groups,
    handles: new Handles(
      () => settings().legacyConnection ?? settings().single,
      () => settings().single,
    ),
    locks,
    jobs,
    figures: new StorageFigures(),
    attempts: new CreateAttempts(),
    lookup,
    duplicates: twins,
    settings,
  };
  // A slow listing must not make a connection count as one that answers nothing: each kind of question is judged by itself.
  const space = new FreeSpace(patient(capacity), breakers, common.figures);
  const health = new HealthMonitor(common, patient(look), patient(2 * look), times);
  const parts = (own: RouterContext) => ({
    volumes: new Volumes(own, space, health),
    snapshots: new Snapshots(own),
    listing: new Listing(own, patient(look), health),
    capacity: new Capacity(own, space),
    groupSnapshots: new GroupSnapshots(own),
  });
  return {
    ...parts(common),
    /**
     * The same for a driver's name that stands for one connection: classes need not name it, ids without a prefix are its own, and
     * new ones have none. Locks are shared with all others, so nobody works on a volume under two names at once.
     */
    standingFor: (connection: string) => parts(scopedToConnection(common, connection)),
    /** As the function of this name, for these groups. */
    overview: (groups: ReadonlyMap<string, Group>) =>
      overview({ ...common, jobs, health }, groups, settings().policy.prefix),
    /** One look at the health of all storages; each change is a line of the log. */
    lookAtHealth: async (call: Call) => {
      await twins.round(call);
      await health.survey(call);
    },
    /** Checks the storages of connections that are new or were changed. */
    checkNew: (call: Call) => health.checkNew(call),
    /** What leads a node of a segment to volumes of connections that it reaches, as far as that is known. */
    examples: (segment: Segments) => health.examples(segment),
    /** Resolves after at most so many milliseconds, with the keys of the jobs that run on. */
    stop: (limitMs: number) => {
      breakers.close();
      return jobs.stop(limitMs);
    },
  };
}
