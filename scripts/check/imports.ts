import { existsSync } from "node:fs";
import { cruise, type ICruiseResult } from "dependency-cruiser";
import { root } from "../spawned.ts";
import { importRules } from "./import-rules.ts";

/** The verdict of the import rules on one checkout. */
export interface ImportReport {
  /** Files that were read; 0 means that the tool does not parse TypeScript. */
  readonly files: number;
  readonly violations: readonly string[];
}

/** Checks the import rules on cmd/, lib/ and scripts/ of a checkout. */
export async function checkImports(folder: string = root): Promise<ImportReport> {
  const folders = ["cmd", "lib", "scripts"];
  const { output } = await cruise(
    folders.filter(name => existsSync(`${folder}/${name}`)),
    {
      baseDir: folder,
      validate: true,
      ruleSet: { forbidden: [...importRules] },
      doNotFollow: { path: "node_modules" },
      tsPreCompilationDeps: true,
      parser: "tsc",
    },
    {
      extensions: [".ts", ".js", ".json"],
      exportsFields: ["exports"],
      symlinks: false,
      conditionNames: ["import", "node", "default"],
    },
  );
  const { modules, summary } = output as ICruiseResult;
  return {
    files: modules.filter(module => /^(cmd|lib|scripts)\/.*\.ts$/.test(module.source)).length,
    violations: summary.violations.map(({ rule, from, to, cycle }) => {
      const path = cycle ? cycle.map(step => step.name).join(" -> ") : to;
      const comment = importRules.find(({ name }) => name === rule.name)?.comment;
      return `${rule.name}: ${from} -> ${path}${comment === undefined ? "" : ` (${comment})`}`;
    }),
  };
}
