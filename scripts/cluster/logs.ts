import { existsSync } from "node:fs";
import { copyFile, link, mkdir, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { errnoOf } from "../../lib/core/errors.ts";
import { below } from "../check/below.ts";

/** The paths of the log files below a folder, relative to it; none if it does not exist. */
const logsBelow = (folder: string): readonly string[] =>
  existsSync(folder) ? below(folder).filter(name => name.endsWith(".log")) : [];

/** kubelet removes the logs of a pod with the pod. A hard link keeps them without copying. */
async function linkLogs(from: string, to: string): Promise<void> {
  for (const name of logsBelow(from)) {
    await mkdir(dirname(join(to, name)), { recursive: true });
    await link(join(from, name), join(to, name)).catch((error: unknown) => {
      // It has a link already, or the pod was just removed.
      if (errnoOf(error) !== "EEXIST" && errnoOf(error) !== "ENOENT") throw error;
    });
  }
}

/** Stops collecting logs, and removes them unless `keep` is true. */
export type EndOfLogs = (keep: boolean) => Promise<void>;

/**
 * Collects the logs of all pods from now on, including csimux and its sidecars, in `to`, which is emptied first and must be
 * on the file system of `logs` (/var/log of the machine). The logs of the machine are added at the end. A pod that lives less
 * than `everyMs` milliseconds may be missed.
 */
export async function keepLogs(logs: string, to: string, everyMs = 1_000): Promise<EndOfLogs> {
  await rm(to, { recursive: true, force: true });
  const pods = join(logs, "pods");
  let round: Promise<void> = Promise.resolve();
  let failure: unknown;
  const look = (): Promise<void> =>
    linkLogs(pods, join(to, "pods")).catch((error: unknown) => {
      failure ??= error;
    });
  const timer = setInterval(() => {
    round = round.then(look);
  }, everyMs);
  return async keep => {
    clearInterval(timer);
    await round.then(look);
    if (!keep) return rm(to, { recursive: true, force: true });
    await mkdir(to, { recursive: true });
    for (const name of await readdir(logs)) if (name.endsWith(".log")) await copyFile(join(logs, name), join(to, name));
    if (failure !== undefined) throw failure;
  };
}
