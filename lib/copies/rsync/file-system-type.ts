import type { Call } from "../../core/call.ts";
import type { ReadableTree } from "../../drivers/copying.ts";

/** The magic numbers (statfs(2)) of the file systems of a tree and a folder, in hexadecimal digits; empty texts if they cannot be read. */
export interface TreeTypes {
  readonly tree: string;
  readonly target: string;
}

/** The types of a tree and a folder. */
export async function typesOf({ path, runner }: ReadableTree, folder: string, call: Call): Promise<TreeTypes> {
  const argv = ["stat", "--file-system", "--format=%t", "--", path, folder] as const;
  const { stdout, exitCode } = await runner.run({ argv }, call.signal);
  const [tree = "", target = "", ...more] = exitCode === 0 ? stdout.trim().split("\n") : [];
  return more.length === 0 ? { tree, target } : { tree: "", target: "" };
}

const btrfs = "9123683e";

/**
 * Whether everything in a tree belongs to it, whatever its device number: on btrfs every user can make subvolumes in folders of his own, each with
 * a number of its own. Nothing is mounted in a tree that is read (ReadableTree), but a network file system may mount a folder by itself.
 */
export const isWhole = (type: string): boolean => type === btrfs;
