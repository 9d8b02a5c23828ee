import { cluster } from "./rules/cluster.ts";
import { deployment } from "./rules/deployment.ts";
import { helm } from "./rules/helm.ts";
import { mainFile } from "./rules/main-file.ts";
import { reading } from "./rules/reading.ts";
import type { Rule } from "./rules/rule.ts";

/** Every rule that validation knows, in the order of the documentation. */
export const rules: readonly Rule[] = [...reading, ...mainFile, ...deployment, ...cluster, ...helm];
