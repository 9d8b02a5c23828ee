import type { CapacityRange } from "../core/bytes.ts";
import type { Tenant, Tenure } from "./tenure.ts";

/** Text that travels with a volume (`volume_context`) or comes with a class (`parameters`). */
export type Context = Readonly<Record<string, string>>;

/** Where the content of a new volume comes from; `id` is the real driver's id on the same connection. */
export interface Source {
  readonly kind: "volume" | "snapshot";
  readonly id: string;
}

/** A source on another connection; `handle` is its CSI id. A target keeps and compares it, and never interprets it. */
export interface ForeignSource {
  readonly kind: Source["kind"];
  readonly handle: string;
}

/** A volume to be created. The router has checked that the range is possible and the capabilities fit the driver's access. */
export interface VolumeSpec {
  /** The caller's name: any Unicode text up to 128 bytes. The driver derives its own id from it. */
  readonly name: string;
  readonly range: CapacityRange;
  readonly parameters: Context;
  readonly source: Source | undefined;
  /** The source on another connection; never with `source`. Only CopyTarget accepts it. */
  readonly origin?: ForeignSource | undefined;
  /** Whose the volume will be; undefined if nothing is known of that, and nothing is to be recorded. */
  readonly tenant?: Tenant | undefined;
  /** Properties that may be changed later (a VolumeAttributesClass); empty for a driver that cannot change any. */
  readonly mutable: Context;
}

/** A volume that exists. */
export interface Volume {
  readonly id: string;
  /** Size in bytes; 0 if unknown. */
  readonly bytes: bigint;
  readonly context: Context;
  readonly source: Source | undefined;
  /** Whose it is, if that is recorded. */
  readonly tenure?: Tenure | undefined;
}
