import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { afterFailure } from "../failure.ts";
import { unless } from "./files.ts";
import type { OperationContext } from "./operation-context.ts";
import type { SnapshotRecord, TreeRecords, VolumeRecord } from "./records.ts";
import { copyTree } from "./tools.ts";
import type { InitialContent, Trees } from "./trees.ts";

/** A tree that others can be made from. */
export interface SourceTree {
  readonly path: string;
  /** The smallest volume in bytes that may be made from it; 0 when unknown. */
  readonly bytes: bigint;
}

/** What a new volume is filled with. */
export interface VolumeContent {
  /** The smallest volume in bytes that may be made from it; 0 when unknown. */
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

/** What a new tree is made with; settled before anything is written. */
export interface TreePlan<R> {
  readonly record: R;
  readonly fill: InitialContent;
}

/**
 * Makes a tree that is known to be absent: plan, record, tree, in this order. A record without a tree therefore tells of an
 * interrupted call, whose remains go first. When it fails for good, nothing stays; otherwise the repeat goes on from here.
 */
export async function make<R extends VolumeRecord | SnapshotRecord>(
  space: OperationContext,
  subject: TreeWithRecord<R>,
  plan: () => Promise<TreePlan<R>>,
  call: Call,
): Promise<R> {
  const { trees, tree, records, key, file } = subject;
  try {
    const { record, fill } = await plan();
    if (!(await records.start(key, record))) {
      await trees.sweep(tree, call);
      await records.replace(key, record);
    }
    await trees.place(tree, fill);
    return record;
  } catch (error) {
    throw await afterFailure(error, () => trees.abandon(tree, file, call), space, `make "${tree}"`, call);
  }
}

/** Copies; "aborted" when `folder` is gone after a failure: another csimux on this base has taken it over and goes on with the work. */
async function copyOwn(space: OperationContext, source: string, folder: string, call: Call): Promise<void> {
  try {
    await copyTree(space, source, folder, call);
  } catch (error) {
    if ((await space.files.entry(folder)) !== undefined) throw error;
    const text = `${folder} was taken away while it was filled; repeat the call`;
    throw new CsiError("aborted", `connection "${space.connection}": ${text}`, { cause: error });
  }
}

/** Copies the tree at `source` into `folder`. Throws "aborted" when one of the two was removed or replaced meanwhile. */
export async function copyFrom(space: OperationContext, source: string, folder: string, call: Call): Promise<void> {
  const before = await space.files.facts(source);
  await copyOwn(space, source, folder, call);
  // Files may vanish from a volume in use; when the volume itself vanishes, what was copied is not its content.
  const after = await unless(space.files.facts(source), "ENOENT");
  if (after?.mark === before.mark) return;
  throw new CsiError(
    "aborted",
    `connection "${space.connection}": ${source} was removed while it was copied; repeat the call`,
  );
}

/** The content of a tree. */
export const copyOf = (space: OperationContext, { path, bytes }: SourceTree, call: Call): VolumeContent => ({
  bytes,
  fill: folder => copyFrom(space, path, folder, call),
});
