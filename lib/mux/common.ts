import type { Locks } from "../core/locks.ts";
import type { Begun } from "./begun.ts";
import type { Breakers } from "./breakers.ts";
import type { Connections } from "./connections.ts";
import type { Groups } from "./groups.ts";
import type { Handles } from "./handles.ts";
import type { Jobs } from "./jobs.ts";
import type { Known } from "./known.ts";
import type { Lookup } from "./lookup.ts";
import type { MuxSettings } from "./placed.ts";
import type { Twins } from "./twins.ts";

/** What all operations of the router share; one for the process. */
export interface Common {
  readonly connections: Connections;
  readonly breakers: Breakers;
  readonly groups: Groups;
  readonly handles: Handles;
  readonly locks: Locks;
  readonly jobs: Pick<Jobs, "run">;
  readonly known: Known;
  readonly begun: Begun;
  readonly lookup: Lookup;
  readonly twins: Twins;
  readonly settings: () => MuxSettings;
}
