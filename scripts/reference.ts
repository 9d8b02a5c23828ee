/** Makes examples/reference.md, every key of every file, from the schemas that load them; `--check` only compares. */
import { commit } from "./committed.ts";
import { keyReference } from "./key-reference.ts";

process.exitCode = await commit(keyReference(), "scripts/reference.ts", process.argv);
