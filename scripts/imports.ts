import { cruise, type ICruiseResult } from "dependency-cruiser";
import { exists } from "./exists.ts";
import { importRules } from "./import-rules.ts";
import { root } from "./spawned.ts";

/** What the import rules say of one checkout. */
export interface ImportReport {
  /** Files that were really read; none means that the tool cannot see TypeScript. */
  readonly files: number;
  readonly violations: readonly string[];
}

/** Checks the import rules on cmd/, lib/ and scripts/ of a checkout. */
export async function checkImports(folder: string = root): Promise<ImportReport> {
  const folders = ["cmd", "lib", "scripts"];
  const present = await Promise.all(folders.map(name => exists(`${folder}/${name}`)));
  const { output } = await cruise(
    folders.filter((_, index) => present[index]),
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
      return `${rule.name}: ${from} -> ${path}`;
    }),
  };
}

if (import.meta.main) {
  const { files, violations } = await checkImports();
  for (const line of violations) console.error(line);
  console.log(`${files} files, ${violations.length} forbidden imports`);
  process.exitCode = files === 0 || violations.length > 0 ? 1 : 0;
}
