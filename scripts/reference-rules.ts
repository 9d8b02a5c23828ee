/** Makes examples/rules.md, what `csimux validate` checks, from the rules; `--check` only compares. */
import { commit } from "./committed.ts";
import { rulesPage } from "./rules-page.ts";

process.exitCode = await commit(await rulesPage(), "scripts/reference-rules.ts", process.argv);
