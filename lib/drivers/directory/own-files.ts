import { callsAtOnce } from "../../core/slots.ts";
import { believedMs, slotsByDisk } from "../../io/by-disk.ts";
import { withSlots } from "./by-server.ts";
import { directFiles } from "./direct-files.ts";
import { type Files, pooledFiles, unless } from "./files.ts";
import { withSharedSync } from "./shared-sync.ts";

/** Magic numbers of file systems on disks of this machine or in its memory (statfs(2), linux/magic.h). */
const localTypes: ReadonlySet<number> = new Set([
  0xef53, // ext2, ext3, ext4
  0x58465342, // xfs
  0x9123683e, // btrfs
  0xca451a4e, // bcachefs
  0xf2f52010, // f2fs
  0x2fc12fc1, // zfs
  0x01021994, // tmpfs
]);

const slotsOf = slotsByDisk(callsAtOnce);
/** For a folder on a local disk. One for the process: two connections may have the same folder. */
export const localFiles: Files = withSharedSync(directFiles(slotsOf));
/** For a folder of which nothing is known. */
export const carefulFiles: Files = withSharedSync(withSlots(pooledFiles, slotsOf));

const seen = new Map<string, { readonly files: Files; readonly at: number }>();

/**
 * How a base folder that is said to be on this machine is worked on: a network file system or FUSE may be mounted there all the
 * same, and a call that it does not answer must not hold up the process. Rejects with an errno error when the folder cannot be looked at.
 */
export async function ownFiles(base: string): Promise<Files> {
  const known = seen.get(base);
  if (known && performance.now() - known.at < believedMs) return known.files;
  const facts = await unless(carefulFiles.statfs(base), "ENOENT", "ENOTDIR");
  const files = facts && localTypes.has(facts.type) ? localFiles : carefulFiles;
  seen.set(base, { files, at: performance.now() });
  return files;
}
