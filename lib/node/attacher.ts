import type { Access, Capability } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import type { MountTable } from "./mount-table.ts";
import type { Context } from "./requests.ts";

/** What a volume is on this node once it is attached; another kind is another member of this union. */
export interface Attached {
  /** A folder that is there already and is bind mounted. */
  readonly kind: "folder";
  /** Its real path. */
  readonly path: string;
}

/** A volume to be attached. */
export interface Wanted {
  readonly volumeId: string;
  readonly context: Context;
  readonly capability: Capability;
}

/** The node's half of a protocol. Everything may be repeated, and interrupted after any step. */
export interface Attacher {
  /** What volumes of this protocol can be used for. */
  readonly access: Access;
  /** Throws "invalid-argument" for an incomplete context and "not-found" for a volume that is not there. */
  attach(wanted: Wanted, table: MountTable, call: Call): Promise<Attached>;
  /** Undoes attach. Absent when there is nothing to undo. */
  readonly detach?: (context: Context, call: Call) => Promise<void>;
  /** Makes the node see that a volume grew. Absent when nothing on the node depends on the size. */
  readonly grown?: (context: Context, call: Call) => Promise<void>;
}
