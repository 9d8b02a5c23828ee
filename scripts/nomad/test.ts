import { cp, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { EndOfLogs } from "../cluster/logs.ts";
import { runSuite } from "../cluster/suite.ts";
import { root } from "../spawned.ts";
import { cache, clientNames, folderOf, state } from "./place.ts";

/** The output of each allocation, which Nomad keeps until it forgets the allocation, and the logs of Nomad and Docker. */
async function copyLogs(to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  await cp(join(state, "log"), to, { recursive: true });
  for (const client of clientNames) {
    const allocations = join(folderOf(client), "data/alloc");
    for (const id of await readdir(allocations).catch(() => []))
      await cp(join(allocations, id, "alloc/logs"), join(to, client, id), {
        recursive: true,
        // Pipes of tasks that run.
        filter: path => !path.endsWith(".fifo"),
      }).catch(() => {});
  }
}

async function keepLogs(to: string): Promise<EndOfLogs> {
  await rm(to, { recursive: true, force: true });
  return keep => (keep ? copyLogs(to) : Promise.resolve());
}

/** Runs test files of the running machine, or the named ones, one after the other. Returns whether all passed. */
export const runNomadTests = (only: readonly string[]): Promise<boolean> =>
  runSuite({ folder: `${root}/tests/nomad`, suffix: ".nomad.ts", failed: join(cache, "failed"), keepLogs }, only);
