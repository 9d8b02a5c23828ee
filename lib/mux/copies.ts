import type { MethodChoice } from "../copies/methods.ts";
import type { CopiesView } from "../copies/progress.ts";
import type { CopyState } from "../copies/protocol.ts";
import type { Segments } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import type { Handle } from "../core/handle.ts";
import type { CopySpec, StoredCopy } from "../drivers/copying.ts";
import type { Volume } from "../drivers/driver.ts";
import type { PlacementPolicy } from "../topology/accessible-topology.ts";
import type { Connection } from "./connection.ts";
import type { PlacementRequest } from "./placement.ts";

/** A volume as its driver returned it, and where it is reachable from. */
export interface MadeVolume {
  readonly volume: Volume;
  readonly accessibleTopology: readonly Segments[];
}

/** What the router asks of the copies between connections (lib/copies). */
export interface Copies {
  /** Throws "aborted" if the object is source or target of a copy that runs here. Synchronous, for callers that hold its lock. */
  refuseBusy(handle: Handle): void;
  /** The methods from a source to a connection. Throws "unavailable" if the source's connection cannot be used. */
  methods(source: Handle, to: Connection): Promise<MethodChoice>;
  /** Whether a copy to a volume of this name has begun. Throws "failed-precondition" if its record cannot be used. */
  hasBegun(connection: Connection, name: string, call: Call): Promise<boolean>;
  /** CreateVolume with a source on another connection. The caller holds the locks of volume and source. */
  create(
    connection: Connection,
    source: Handle,
    spec: CopySpec,
    request: PlacementRequest,
    policy: PlacementPolicy,
    call: Call,
  ): Promise<MadeVolume>;
  /** Prepares the deletion of a volume. Throws "aborted" if another process copies it. */
  beforeDelete(connection: Connection, target: Handle, call: Call): Promise<void>;
  /** The state of a copy from its record, with the progress if it runs in this process. */
  state(connection: string, stored: StoredCopy): CopyState;
  /** The copies that run or wait in this process. Does no I/O. */
  view(): CopiesView;
  /** Stops the copies and waits for work that continues after answers, at most `limitMs` milliseconds for both. */
  stop(limitMs: number): Promise<void>;
}
