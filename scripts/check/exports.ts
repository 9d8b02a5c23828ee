import { readFile } from "node:fs/promises";
import { posix } from "node:path";
import { root } from "../spawned.ts";
import { below } from "./below.ts";
import type { Source } from "./conventions.ts";

const folders = ["lib", "cmd", "scripts", "tests"];

/** Code that others write, or that other programs read. */
const foreign = /^lib\/csi\/gen\//;

const declared = /^export (?:declare |abstract |async )*(const|let|function\*?|class|interface|type) (\w+)/gm;
const listed = /^(?:import|export) (?:type )?\{([^}]*)\} from "(\.[^"]+)"/gm;
const whole = /(?:\* as \w+ from|\* from|\bimport\() ?"(\.[^"]+)"/g;

/** The names in the braces of an import: `a`, `type B`, `c as d`. */
const namesIn = (braces: string): readonly string[] =>
  braces
    .split(",")
    .map(each =>
      each
        .trim()
        .replace(/^type /, "")
        .replace(/ as .*/, ""),
    )
    .filter(Boolean);

/**
 * What no other file imports, one line each. An import of a whole module, or one at run time, uses all that it exports. A type that its
 * own file uses may stay, because it describes what another export takes or returns.
 */
export function unusedExports(all: readonly Source[]): readonly string[] {
  const used = new Set<string>();
  for (const { path, text } of all) {
    const target = (relative: string) => posix.join(posix.dirname(path), relative);
    for (const [, braces = "", from = ""] of text.matchAll(listed))
      for (const name of namesIn(braces)) used.add(`${target(from)} ${name}`);
    for (const [, from = ""] of text.matchAll(whole)) used.add(`${target(from)} *`);
  }
  return all
    .filter(({ path }) => !foreign.test(path) && !used.has(`${path} *`))
    .flatMap(({ path, text }) =>
      [...text.matchAll(declared)]
        .filter(([, , name]) => !used.has(`${path} ${name}`))
        .flatMap(({ 1: kind, 2: name, index }) => {
          const isUsed = new RegExp(`\\b${name}\\b[^]*\\b${name}\\b`).test(text);
          if (isUsed && /interface|type/.test(kind ?? "")) return [];
          const remedy = isUsed ? 'only its own file uses it: remove "export"' : "nothing uses it: remove it";
          return [`${path}:${text.slice(0, index).split("\n").length}: ${name}: ${remedy}`];
        }),
    );
}

/** As `unusedExports`, in the checkout. */
export async function checkExports(): Promise<readonly string[]> {
  const paths = folders.flatMap(folder => below(`${root}/${folder}`, "files only").map(name => `${folder}/${name}`));
  const read = paths.filter(path => path.endsWith(".ts"));
  return unusedExports(
    await Promise.all(read.map(async path => ({ path, text: await readFile(`${root}/${path}`, "utf8") }))),
  );
}
