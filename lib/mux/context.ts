import type { Capability } from "../core/access.ts";
import type { CapacityRange } from "../core/bytes.ts";
import type { TryLocks } from "../core/locks.ts";
import type { Context, Source } from "../drivers/driver.ts";
import type { AccessibilityRequirements, PlacementPolicy } from "../topology/accessible-topology.ts";
import type { Connections } from "./connections.ts";
import type { Copies } from "./copies.ts";
import type { Groups } from "./groups.ts";
import type { Handles } from "./handles.ts";
import type { Jobs } from "./jobs.ts";
import type { SkippedMembers } from "./skipped-members.ts";
import type { StorageCalls } from "./storage-calls.ts";

/** A requested volume; `source.id` is a handle. */
export interface CreateRequest {
  readonly name: string;
  readonly range: CapacityRange;
  readonly capabilities: readonly Capability[];
  readonly parameters: Context;
  readonly source: Source | undefined;
  readonly accessibility: AccessibilityRequirements;
  /** Properties that may be changed later (CSI CreateVolumeRequest.mutable_parameters). */
  readonly mutable: Context;
}

/** The settings of the main file; they may change while csimux runs, so they are read at each use. */
export interface RouterSettings {
  readonly policy: PlacementPolicy;
  readonly legacyConnection: string | undefined;
  /**
   * The only connection, if the main file is one itself or the driver name stands for one: classes need not name it, and ids have no
   * prefix.
   */
  readonly single: string | undefined;
  /** Whether an unfiltered listing fails or is incomplete if a connection does not answer. */
  readonly listing: "complete" | "partial";
}

/** What all operations of the router share; one per process. */
export interface RouterContext {
  readonly connections: Connections;
  readonly calls: StorageCalls;
  readonly groups: Groups;
  readonly handles: Handles;
  readonly locks: TryLocks;
  readonly jobs: Pick<Jobs, "run">;
  readonly skipped: SkippedMembers;
  readonly settings: () => RouterSettings;
  /** Absent in a process that copies nothing. */
  readonly copies?: Copies | undefined;
}
