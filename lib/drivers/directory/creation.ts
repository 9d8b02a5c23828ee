import type { Call } from "../../core/call.ts";
import { unless } from "../../io/files.ts";
import { afterFailure } from "../failure.ts";
import { errorOn, type OperationContext } from "./operation-context.ts";
import type { SnapshotRecord, TreeRecords, VolumeRecord } from "./records.ts";
import type { Claim } from "./removal.ts";
import { copyTree } from "./tools.ts";
import type { InitialContent, Trees } from "./trees.ts";

/** A tree that can be copied. */
export interface SourceTree {
  readonly path: string;
  /** The smallest size in bytes of a volume made from it; 0 if unknown. */
  readonly bytes: bigint;
}

/** The initial content of a new volume. */
export interface VolumeContent {
  /** The smallest size in bytes of a volume made from it; 0 if unknown. */
  readonly bytes: bigint;
  /** Fills an existing empty folder. */
  fill(folder: string): Promise<void>;
}

/** A tree with its record. */
export interface TreeWithRecord<R extends VolumeRecord | SnapshotRecord> {
  readonly trees: Trees;
  readonly tree: string;
  readonly records: TreeRecords<R>;
  readonly key: string;
  /** The path of the record. */
  readonly file: string;
}

/** The record and content of a new tree, determined before anything is written. */
export interface TreePlan<R> {
  readonly record: R;
  readonly fill: InitialContent;
}

/**
 * Creates an absent tree: plan, record, tree, in this order. So a record without a tree means an interrupted call, whose
 * remains are removed first, and what has a record is another controller's. After a final failure nothing remains; after any other the retry continues from here.
 */
export async function make<R extends VolumeRecord | SnapshotRecord>(
  context: OperationContext,
  subject: TreeWithRecord<R>,
  plan: () => Promise<TreePlan<R>>,
  call: Call,
): Promise<R> {
  const { trees, tree, file } = subject;
  try {
    const { record, fill } = await plan();
    await recorded(context, subject, record, claim => trees.place(tree, fill, claim, call), call);
    return record;
  } catch (error) {
    throw await afterFailure(error, () => trees.clear(tree, file, call), context, `make "${tree}"`, call);
  }
}

/**
 * Writes the record of an absent tree, then makes the tree appear by `place`. Throws "aborted" if another controller does the same, or
 * removes it, meanwhile.
 */
export async function recorded<R extends VolumeRecord | SnapshotRecord>(
  context: OperationContext,
  { trees, tree, records, key, file }: TreeWithRecord<R>,
  record: R,
  place: (claim: Claim) => Promise<boolean>,
  call: Call,
): Promise<void> {
  const text = `${tree} is being made or removed by another controller; retrying`;
  const aborted = () => errorOn(context, "aborted", text);
  const start = () => records.start(key, record);
  const begun = (await start()) ?? ((await trees.clear(tree, file, call)) ? await start() : undefined);
  if (begun === undefined) throw aborted();
  let wasHeld = false;
  const isStill = async () => {
    wasHeld = await records.isStill(key, begun);
    return wasHeld;
  };
  if (!(await place({ file, isStill }))) throw aborted();
  // A tree that has appeared while its record was held is seen by any controller that takes the record from then on, and that puts it
  // back. On a server, the other one may not see it yet.
  if ((wasHeld && context.local) || (await isStill())) return;
  // A deletion that began before the tree appeared has taken the record for that of an interrupted call.
  if ((await start()) === undefined || !(await trees.has(tree))) throw aborted();
}

/** Copies. Throws "aborted" if `folder` is gone after a failure: another csimux on this base folder is removing it. */
async function copyOwn(context: OperationContext, source: string, folder: string, call: Call): Promise<void> {
  try {
    await copyTree(context, source, folder, call);
  } catch (error) {
    if ((await context.files.entry(folder)) !== undefined) throw error;
    const text = `${folder} was removed while it was filled; retrying`;
    throw errorOn(context, "aborted", text, { cause: error });
  }
}

/** Copies the tree at `source` into `folder`. Throws "aborted" if one of them was removed or replaced meanwhile. */
export const copyFrom = (context: OperationContext, source: string, folder: string, call: Call): Promise<void> =>
  reading(context, source, () => copyOwn(context, source, folder, call));

/** Reads the tree at `source` by `work`. Throws "aborted" if the tree was removed or replaced meanwhile. */
export async function reading<T>(context: OperationContext, source: string, work: () => Promise<T>): Promise<T> {
  const before = await context.files.facts(source);
  const result = await work();
  // Files may vanish from a volume in use; if the volume itself vanished, the copy is incomplete.
  const after = await unless(context.files.facts(source), "ENOENT");
  if (after?.mark === before.mark) return result;
  const text = `${source} was removed while it was copied; retrying`;
  throw errorOn(context, "aborted", text);
}

/** The content of a tree. */
export const copyOf = (context: OperationContext, { path, bytes }: SourceTree, call: Call): VolumeContent => ({
  bytes,
  fill: folder => copyFrom(context, path, folder, call),
});
