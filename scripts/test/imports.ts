import { readFileSync } from "node:fs";
import { posix } from "node:path";
import { below } from "../check/below.ts";
import { root } from "../spawned.ts";

const folders = ["tests", "scripts", "cmd", "lib"];

/** The files of the checkout that each of its TypeScript files imports, by path below the checkout. Imports of types do not count. */
export type Imports = ReadonlyMap<string, readonly string[]>;

/** What a file runs without importing it: the tests of the executable build it. */
const runs: Readonly<Record<string, readonly string[]>> = { "scripts/build.ts": ["cmd/csimux.ts"] };

const transpiler = new Bun.Transpiler({ loader: "ts" });

/** Whether a file has code of its own, and not only types, which `make check` checks. */
export const hasCode = (file: string): boolean =>
  /\.(?:js|css|py|sh)$/.test(file) ||
  (file.endsWith(".ts") && transpiler.transformSync(readFileSync(`${root}/${file}`)).trim() !== "");

/** Reads the imports of all sources and tests. */
export function readImports(): Imports {
  const files = folders.flatMap(folder =>
    below(`${root}/${folder}`, "files only")
      .filter(name => name.endsWith(".ts"))
      .map(name => `${folder}/${name}`),
  );
  const importsOf = (file: string): readonly string[] =>
    transpiler
      .scanImports(readFileSync(`${root}/${file}`))
      .filter(({ path }) => path.startsWith("."))
      .map(({ path }) => posix.join(posix.dirname(file), path));
  return new Map(files.map(file => [file, [...importsOf(file), ...(runs[file] ?? [])]]));
}

/** A file and all that it imports, directly or not. */
export function reached(imports: Imports, file: string): ReadonlySet<string> {
  const seen = new Set([file]);
  for (const each of seen) for (const next of imports.get(each) ?? []) seen.add(next);
  return seen;
}
