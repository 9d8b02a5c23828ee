import { chartFiles } from "./generate/chart-files.ts";
import { driverTable } from "./generate/driver-table.ts";
import { editorSchemas } from "./generate/editor-schemas.ts";
import { figuresInGuide } from "./generate/figures.ts";
import { type Generated, stale, write } from "./generate/generated.ts";
import { healthPage } from "./generate/health-page.ts";
import { keyReference } from "./generate/key-reference.ts";
import { localFolders } from "./generate/local-folders.ts";
import { protobufCode } from "./generate/protobuf.ts";
import { rulesPage } from "./generate/rules-page.ts";

const schemas = "the schemas in lib/config and lib/drivers";

/** Everything that is made from other files, with those files. */
export const generators: readonly (readonly [source: string, generate: () => Generated | Promise<Generated>])[] = [
  ["proto/", protobufCode],
  [schemas, editorSchemas],
  [schemas, keyReference],
  ["the drivers in lib/drivers/index.ts", driverTable],
  ["the connection files in examples/local", localFolders],
  ["examples/monitoring/alerts.yaml", chartFiles],
  ["lib/health/reasons.ts", healthPage],
  ["lib/lint/rules/", rulesPage],
  ["the figures in scripts/bench", figuresInGuide],
];

/** Committed files that differ from what their sources generate. One line each. */
export async function staleFiles(): Promise<readonly string[]> {
  const lines = generators.map(async ([source, generate]) => {
    const paths = await stale(await generate());
    return paths.map(
      path => `${path} does not match ${source}: run "node_modules/.bin/bun scripts/generate.ts" and commit the result`,
    );
  });
  return (await Promise.all(lines)).flat();
}

if (import.meta.main) for (const [, generate] of generators) await write(await generate());
