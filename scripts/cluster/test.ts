import { join } from "node:path";
import { root } from "../spawned.ts";
import { keepLogs } from "./logs.ts";
import { cache, state } from "./place.ts";
import { runSuite } from "./suite.ts";

/** Runs test files of the running cluster, or the named ones, one after the other. Returns whether all passed. */
export const runClusterTests = (only: readonly string[]): Promise<boolean> =>
  runSuite(
    {
      folder: `${root}/tests/cluster`,
      suffix: ".cluster.ts",
      failed: join(cache, "failed"),
      keepLogs: to => keepLogs(join(state, "log"), to),
    },
    only,
  );
