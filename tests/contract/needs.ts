import type { Ability } from "../../lib/drivers/driver.ts";
import type { DriverRig } from "./rig.ts";

/** Differences of driver families, in addition to abilities. */
export type Trait =
  /** A snapshot can be restored after its volume was deleted. */
  | "snapshots survive their volume"
  /** A volume can be deleted while one that was cloned from it lives. */
  | "clones survive their volume"
  /** A volume with snapshots cannot be deleted; storages do one or the other. */
  | "snapshots hold their volume"
  /** The driver itself puts its changes on stable storage (the rig has `losePower`); elsewhere the storage system does, before it answers. */
  | "loss of power";

/** What a case takes for granted. */
export type Need = Ability | Trait;

/** A behaviour of every driver that has what the case needs; its title is a sentence. */
export interface Case {
  readonly needs: readonly Need[];
  run(rig: DriverRig): Promise<void>;
}

export type Cases = Readonly<Record<string, Case>>;

/** A case, after what it needs. */
export const needing =
  (...needs: readonly Need[]) =>
  (run: Case["run"]): Case => ({ needs, run });
