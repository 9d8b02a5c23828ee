import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { root } from "../spawned.ts";
import { reached, readImports } from "../test/imports.ts";
import { below } from "./below.ts";

/**
 * The most lines of code: of the daemon (what cmd/serve imports, directly or not), of the rest of lib and cmd, of tests and of scripts, in
 * steps of a hundred, so that a small change needs no edit. The check lowers a figure; only an edit raises it, in a commit that says why.
 */
const limitsFile = `${root}/scripts/check/weight.json`;
const step = 100;

type Weight = Readonly<Record<string, number>>;

/** The lines of code by part, without what is generated. */
function weigh(): Weight {
  const imports = readImports();
  const starts = [...imports.keys()].filter(path => path.startsWith("cmd/serve/"));
  const daemon = new Set(starts.flatMap(path => [...reached(imports, path)]));
  const sums: Record<string, number> = { daemon: 0, "other commands": 0, tests: 0, scripts: 0 };
  for (const folder of ["lib", "cmd", "tests", "scripts"])
    for (const name of below(`${root}/${folder}`, "files only")) {
      const path = `${folder}/${name}`;
      if (!/\.(?:ts|js|css|py|sh)$/.test(path) || path.startsWith("lib/csi/gen/")) continue;
      const product = daemon.has(path) ? "daemon" : "other commands";
      const part = folder === "lib" || folder === "cmd" ? product : folder;
      sums[part] = (sums[part] ?? 0) + readFileSync(`${root}/${path}`, "utf8").split("\n").length - 1;
    }
  return sums;
}

/** What is heavier than its limit, one line each, and the limits that hold from now on: never above the old ones. */
export function judged(weight: Weight, limits: Weight) {
  const parts = Object.entries(weight).map(([part, lines]) => ({ part, lines, most: limits[part] ?? 0 }));
  const remedy = (most: number) => `scripts/check/weight.json allows ${most}: remove some`;
  const lowered = parts.map(({ part, lines, most }) => [part, Math.min(most, Math.ceil(lines / step) * step)]);
  return {
    problems: parts.flatMap(({ part, lines, most }) =>
      lines > most ? [`${part}: ${lines} lines, and ${remedy(most)}`] : [],
    ),
    limits: Object.fromEntries(lowered) as Weight,
  };
}

/** What is heavier than its limit, one line each. Lowers the limits of what has become lighter. */
export async function checkWeight(): Promise<readonly string[]> {
  const old = await readFile(limitsFile, "utf8");
  const { problems, limits } = judged(weigh(), JSON.parse(old) as Weight);
  const text = `${JSON.stringify(limits, undefined, 2)}\n`;
  if (text !== old) await writeFile(limitsFile, text);
  return problems;
}
