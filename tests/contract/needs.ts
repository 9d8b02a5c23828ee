import { test } from "bun:test";
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
  /** What another controller has finished meanwhile is distinguished from the rest of a failed call. */
  | "a second writer"
  /** A volume that another controller has deleted and made again is distinguished from the one that was there before. */
  | "a second generation"
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

/** Why something does not have a need. */
export type Lacks<N extends string> = Readonly<Partial<Record<N, string>>>;

/** Passes a new rig to `run`, and closes it. */
export async function used<R extends { close(): Promise<void> }, T>(
  open: () => Promise<R>,
  run: (rig: R) => Promise<T>,
): Promise<T> {
  const rig = await open();
  try {
    return await run(rig);
  } finally {
    await rig.close();
  }
}

/** What a case does, after what it needs, if anything. */
type Entry<R, N extends string> =
  | ((rig: R) => Promise<void>)
  | { readonly needs: readonly N[]; run(rig: R): Promise<void> };

/** A test for each case, each with its own rig; cases that need what `lacks` names are reported as skipped, with the reason, and all are for the reasons in `skipAll`. */
export function testCases<R extends { close(): Promise<void> }, N extends string>(
  cases: Readonly<Record<string, Entry<R, N>>>,
  open: () => Promise<R>,
  lacks: Lacks<N>,
  skipAll: readonly string[] = [],
): void {
  for (const [title, entry] of Object.entries(cases)) {
    const { needs, run } = typeof entry === "function" ? { needs: [], run: entry } : entry;
    const reasons = new Set([...skipAll, ...needs.flatMap(need => lacks[need] ?? [])]);
    test.skipIf(reasons.size > 0)([title, ...reasons].join("; skipped: "), () => used(open, run));
  }
}

/** A case, after what it needs. */
export const needing =
  (...needs: readonly Need[]) =>
  (run: Case["run"]): Case => ({ needs, run });
