import type { TryLocks } from "../core/locks.ts";
import type { Breakers } from "./breakers.ts";
import type { Connections } from "./connections.ts";
import type { CreateAttempts } from "./create-attempts.ts";
import type { DuplicateVolumes } from "./duplicate-volumes.ts";
import type { Groups } from "./groups.ts";
import type { Handles } from "./handles.ts";
import type { Jobs } from "./jobs.ts";
import type { Lookup } from "./lookup.ts";
import type { RouterSettings } from "./routed.ts";
import type { StorageFigures } from "./storage-figures.ts";

/** What all operations of the router share; one for the process. */
export interface RouterContext {
  readonly connections: Connections;
  readonly breakers: Breakers;
  readonly groups: Groups;
  readonly handles: Handles;
  readonly locks: TryLocks;
  readonly jobs: Pick<Jobs, "run">;
  readonly figures: StorageFigures;
  readonly attempts: CreateAttempts;
  readonly lookup: Lookup;
  readonly duplicates: DuplicateVolumes;
  readonly settings: () => RouterSettings;
}
