import type { Capability } from "../core/access.ts";
import type { CapacityRange } from "../core/bytes.ts";
import type { Segments } from "../core/topology.ts";
import type { Context, Source, Volume } from "../drivers/driver.ts";
import type { Demand, PlacementPolicy } from "../topology/place.ts";

/** A volume as the outside sees it: its id and that of its source are handles, and it has places. */
export interface PlacedVolume extends Volume {
  readonly places: readonly Segments[];
}

/** A volume that somebody wants; `source.id` is a handle. */
export interface CreateRequest {
  readonly name: string;
  readonly range: CapacityRange;
  readonly capabilities: readonly Capability[];
  readonly parameters: Context;
  readonly source: Source | undefined;
  readonly demand: Demand;
}

/** What the main file says about all connections; it may change while csimux runs, so it is asked for at each use. */
export interface MuxSettings {
  readonly policy: PlacementPolicy;
  readonly legacyConnection: string | undefined;
  /** What an unfiltered listing does about a connection that cannot answer: fail, or leave it out. */
  readonly listing: "complete" | "partial";
}
