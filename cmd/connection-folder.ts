import { statSync } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";

/**
 * The folder of connection files that a main file names, or undefined when it is not on this machine. A relative one is
 * looked for where the command runs, as `serve` does, then beside the main file.
 */
export function connectionFolder(folder: string, mainFile: string): string | undefined {
  const candidates = isAbsolute(folder) ? [folder] : [join(folder), join(dirname(mainFile), folder)];
  return candidates.find(isFolder);
}

/** Whether there is a folder of this name, or a link to one. */
export const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
