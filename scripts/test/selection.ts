import { below } from "../check/below.ts";
import { root, spawned } from "../spawned.ts";
import type { Imports } from "./imports.ts";
import { type Seconds, unknown } from "./unit.ts";

/** The parts of `make test`. */
const parts = ["unit", "sanity", "portable"] as const;
export type Part = (typeof parts)[number];

/** What a run consists of. */
export interface Selection {
  readonly parts: readonly Part[];
  /** The files of the unit tests, by path below the checkout. */
  readonly files: readonly string[];
}

const isPart = (word: string): word is Part => (parts as readonly string[]).includes(word);

/** A word is a file, a folder, or a part of a path, in this order. */
function filesOf(word: string, all: readonly string[]): readonly string[] {
  const path = word.replace(/^\.\//, "").replace(/\/+$/, "");
  const exact = all.filter(file => file === path || file.startsWith(`${path}/`));
  return exact.length > 0 ? exact : all.filter(file => file.includes(path));
}

/** Splits words into parts and files. Throws a text for the user if one of them names nothing. */
export function select(words: readonly string[], all: readonly string[]): Selection {
  if (words.length === 0) return { parts, files: all };
  const chosen = new Set<string>();
  const named = new Set<Part>(words.filter(isPart));
  for (const word of words.filter(each => !isPart(each))) {
    const files = filesOf(word, all);
    if (files.length === 0)
      throw new Error(`no file of tests is at or below "${word}", and the parts are ${parts.join(", ")}`);
    for (const file of files) chosen.add(file);
  }
  if (named.has("unit")) return { parts: [...named], files: all };
  return { parts: chosen.size > 0 ? ["unit", ...named] : [...named], files: [...chosen].sort() };
}

async function git(...args: readonly string[]): Promise<readonly string[]> {
  const { code, stdout, stderr } = await spawned(["git", ...args]);
  if (code !== 0) throw new Error(`git ${args.join(" ")} failed: ${stderr.trim()}`);
  return stdout.split("\0").filter(Boolean);
}

/** The files that differ from a commit and still exist, and those that git does not know yet. */
export const changedSince = async (commit: string): Promise<readonly string[]> => [
  ...(await git("diff", "-z", "--name-only", "--diff-filter=d", commit)),
  ...(await git("ls-files", "-z", "--others", "--exclude-standard")),
];

/** How many imports each file is away from a test. A driver's tests follow the list of all drivers to their own only. */
function distances(imports: Imports, test: string): ReadonlyMap<string, number> {
  const folder = test.replace(/^tests\/(drivers\/[^/]+\/).*/, "lib/$1");
  const importsOf = (file: string): readonly string[] => {
    const all = imports.get(file) ?? [];
    const own = file === "lib/drivers/index.ts" ? all.filter(each => each.startsWith(folder)) : [];
    return own.length > 0 ? own : all;
  };
  const result = new Map([[test, 0]]);
  for (const [file, far] of result)
    for (const next of importsOf(file)) if (!result.has(next)) result.set(next, far + 1);
  return result;
}

/** How many words the paths of two files share: tests are in folders named as those of what they test. */
function kinship(one: string, other: string): number {
  const words = new Set(one.split(/[/.-]/));
  return other.split(/[/.-]/).filter(word => words.has(word)).length;
}

/**
 * The tests that are among the changed files or import one of them, directly or not, as many as `most` seconds allow: of each file the
 * nearest, whatever it takes, then three of the executable, then the others, the nearest first; `left` are those for which there is no
 * time, and `unreached` the files that no test reaches.
 */
export function affected(
  changed: readonly string[],
  { all, imports, seconds, most }: { all: readonly string[]; imports: Imports; seconds: Seconds; most: number },
) {
  const tests = all.map(test => ({ test, away: distances(imports, test), cost: seconds[test] ?? unknown }));
  const near = changed.map(file =>
    tests
      .filter(({ away }) => away.has(file))
      .map(each => ({ ...each, rank: (each.away.get(file) ?? 0) - 100 * kinship(each.test, file) }))
      .toSorted((a, b) => a.rank - b.rank || a.cost - b.cost),
  );
  const nearest = near.flatMap(list => list.slice(0, 1));
  const executable = near.flatMap(list => list.filter(({ away }) => away.has("scripts/build.ts")).slice(0, 3));
  const others = near.flat().toSorted((a, b) => a.rank - b.rank);
  const files: string[] = [];
  const left: string[] = [];
  let sum = 0;
  for (const [test, cost] of new Map([...nearest, ...executable, ...others].map(({ test, cost }) => [test, cost]))) {
    const isChosen = sum + cost <= most || nearest.some(each => each.test === test);
    (isChosen ? files : left).push(test);
    if (isChosen) sum += cost;
  }
  return { files, left, unreached: changed.filter((_, at) => near[at]?.length === 0) };
}

/** The files of the unit tests, by path below the checkout. */
export const testFiles = (): readonly string[] =>
  below(`${root}/tests`, "files only")
    .filter(name => name.endsWith(".test.ts"))
    .map(name => `tests/${name}`);
