/** Makes examples/health.md, every condition that csimux tells, from lib/health/reasons.ts; `--check` only compares. */
import { commit } from "./committed.ts";
import { healthPage } from "./health-page.ts";

process.exitCode = await commit(healthPage(), "scripts/reference-health.ts", process.argv);
