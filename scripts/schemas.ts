/** Makes examples/schemas, which editors read, from the schemas that load the configuration; `--check` only compares. */

import { commit } from "./committed.ts";
import { editorSchemas } from "./editor-schemas.ts";

process.exitCode = await commit(editorSchemas(), "scripts/schemas.ts", process.argv);
