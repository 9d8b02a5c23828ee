import { isLocalMagic } from "../../core/mountinfo.ts";
import { believedMs, fileThreads } from "../../io/file-threads.ts";
import { withSlots } from "./by-server.ts";
import { directFiles } from "./direct-files.ts";
import { type Files, pooledFiles, unless } from "./files.ts";
import { withSharedSync } from "./shared-sync.ts";

const slotsOf = (path: string) => fileThreads.on(path);
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
  const files = facts && isLocalMagic(facts.type) ? localFiles : carefulFiles;
  for (const [other, { at }] of seen) if (performance.now() - at >= believedMs) seen.delete(other);
  const now = performance.now();
  for (const [other, { at }] of seen) if (now - at >= believedMs) seen.delete(other);
  seen.set(base, { files, at: now });
  return files;
}
