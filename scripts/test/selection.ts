import { below } from "../check/below.ts";
import { root, spawned } from "../spawned.ts";
import { type Imports, reached } from "./imports.ts";

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

/** The files that differ from a commit, and those that git does not know yet. */
export const changedSince = async (commit: string): Promise<readonly string[]> => [
  ...(await git("diff", "-z", "--name-only", commit)),
  ...(await git("ls-files", "-z", "--others", "--exclude-standard")),
];

/** The tests that are among these files or import one of them, directly or not. */
export const affected = (changed: readonly string[], all: readonly string[], imports: Imports): readonly string[] =>
  all.filter(file => {
    const seen = reached(imports, file);
    return changed.some(each => seen.has(each));
  });

/** The files of the unit tests, by path below the checkout. */
export const testFiles = (): readonly string[] =>
  below(`${root}/tests`, "files only")
    .filter(name => name.endsWith(".test.ts"))
    .map(name => `tests/${name}`);
