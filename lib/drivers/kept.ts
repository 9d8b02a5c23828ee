import type { Call } from "../core/call.ts";
import type { Source } from "./volume.ts";

/**
 * What needs something that is kept: a volume, a snapshot or a deleted volume, by this driver's id; a copy, by the CSI volume id of its target;
 * a hold, by its tag (empty: unknown); or another object of the storage, by its name there.
 */
export interface Needing {
  readonly kind: "volume" | "snapshot" | "deleted-volume" | "copy" | "hold" | "object";
  readonly name: string;
}

/** Something on the storage that stays because something else needs it. */
export interface Kept {
  /**
   * "clone-source": taken for a clone or copy within the connection, which `of` names; "copy-snapshot": for a copy to another connection;
   * "foreign-snapshot": not by csimux.
   */
  readonly what:
    | "deleted-volume"
    | "deleted-snapshot"
    | "foreign-snapshot"
    | "copy-snapshot"
    | "snapshot"
    | "clone-source";
  /** Its name on the storage. */
  readonly name: string;
  /** The volume or snapshot that it is or was, by this driver's id; undefined if unknown. */
  readonly of: Source | undefined;
  /** What its end would free at least, in bytes; 0: nothing, or unknown. */
  readonly bytes: bigint;
  readonly neededBy: readonly Needing[];
  /** What has to happen, in words. */
  readonly frees: string;
  /** Commands for a shell of the storage's host that give up holds of other programs; whole ones, also of many only the first. */
  readonly commands: readonly string[];
}

/** The ability to tell what is kept, and why. */
export interface KeptAbility {
  /** Everything of this connection, for people. Changes nothing. A number of requests that does not grow with the volumes. */
  list(call: Call): Promise<readonly Kept[]>;
}
