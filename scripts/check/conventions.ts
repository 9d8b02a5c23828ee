import { readFile, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { groupBy } from "../../lib/core/group-by.ts";
import { root } from "../spawned.ts";
import { below } from "./below.ts";
import { phrases } from "./phrases.ts";
import { unawaitedReturns } from "./unawaited-returns.ts";

/** The most files of one folder, and lines of one file. */
const maxFiles = 25;
const maxLines = 300;

/** Exported types of equal name in lib and cmd, with the reason why both keep it. */
const homonyms: Readonly<Record<string, string>> = {};

/** A source or page, by its path below the checkout. */
export interface Source {
  readonly path: string;
  readonly text: string;
}

/**
 * What did not hold when a check was introduced: files by folder, lines by file, occurrences by phrase and area, definitions by name of an
 * exported type. The numbers may only shrink; `bun scripts/check/conventions.ts` writes the current ones.
 */
const baselineFile = `${root}/scripts/check/baseline.json`;
const folders = ["lib", "cmd", "scripts", "tests", "examples"];
const pages = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile"];
const generated =
  /^(?:lib\/csi\/gen|tests\/.*corpus|examples\/schemas)\/|^examples\/guide\/(?:rules|reference|health)\.md$/;
const data = /^(?:scripts\/check\/phrases\.ts|tests\/scripts\/conventions\.test\.ts|scripts\/lab\/image\/.*)$/;

async function sources(): Promise<readonly Source[]> {
  const paths = [
    ...folders.flatMap(folder => below(`${root}/${folder}`, "files only").map(name => `${folder}/${name}`)),
    ...pages,
  ]
    .filter(path => /\.(?:ts|md|yaml|sh)$|^Makefile$/.test(path) && !generated.test(path) && !data.test(path))
    .sort();
  return Promise.all(paths.map(async path => ({ path, text: await readFile(`${root}/${path}`, "utf8") })));
}

/** `lib/mux` of lib/mux/x.ts and lib/mux/y/z.ts, `cmd`, `scripts`, `tests/lab`, `pages`. */
function areaOf(path: string): string {
  const [top = "", second = "", third] = path.split("/");
  if (top === "examples" || second === "") return "pages";
  return third === undefined || top === "cmd" || top === "scripts" ? top : `${top}/${second}`;
}

const commentOrString = /\/\*[\s\S]*?\*\/|(?<!:)\/\/[^\n]*(?:\n\s*\/\/[^\n]*)*|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g;

/** The text with its code blanked, so that comments and strings keep their lines. */
function prose({ path, text }: Source): string {
  if (!path.endsWith(".ts")) return text;
  let result = "";
  let end = 0;
  for (const { 0: piece, index } of text.matchAll(commentOrString)) {
    result += text.slice(end, index).replace(/[^\n]/g, " ") + piece;
    end = index + piece.length;
  }
  return result;
}

/** A number that is above its limit, or above the baseline, with what to do. */
interface Excess {
  readonly key: readonly string[];
  readonly count: number;
  readonly limit: number;
  readonly text: string;
}

function roomSizes(all: readonly Source[]): readonly Excess[] {
  const counts = groupBy(
    all.filter(({ path }) => path.endsWith(".ts")),
    ({ path }) => dirname(path),
  );
  return [...counts].map(([folder, { length: count }]) => ({
    key: ["files", folder],
    count,
    limit: maxFiles,
    text: `${folder} has ${count} files: group those of one idea in a folder, or merge files that mean nothing alone`,
  }));
}

const fileSizes = (all: readonly Source[]): readonly Excess[] =>
  all
    .filter(({ path }) => path.endsWith(".ts"))
    .map(({ path, text }) => {
      const count = text.split("\n").length - 1;
      return { key: ["lines", path], count, limit: maxLines, text: `${path} has ${count} lines: split it by ideas` };
    });

function phraseUses(all: readonly Source[]): readonly Excess[] {
  const read = all.map(source => ({ path: source.path, area: areaOf(source.path), text: prose(source) }));
  return phrases.flatMap(({ avoid, write }) => {
    const pattern = new RegExp(`(?<![\\w-])(?:${avoid.replaceAll(" ", "(?:\\s|\\*|//|#)+")})(?![\\w-])`, "g");
    const uses = read.flatMap(({ path, area, text }) =>
      [...text.matchAll(pattern)].map(({ 0: found, index }) => {
        const line = text.slice(0, index).split("\n").length;
        return { area, text: `${path}:${line}: "${found.replace(/(?:\s|\*|\/\/|#)+/g, " ")}": write ${write}` };
      }),
    );
    return [...groupBy(uses, ({ area }) => area)].map(([area, found]) => ({
      key: ["phrases", avoid, area],
      count: found.length,
      limit: 0,
      text: found.map(({ text }) => text).join("\n"),
    }));
  });
}

function typeNames(all: readonly Source[]): readonly Excess[] {
  const defined = all
    .filter(({ path }) => /^(?:lib|cmd)\//.test(path))
    .flatMap(({ path, text }) =>
      [...text.matchAll(/^export (?:declare )?(?:abstract )?(?:interface|type|class) (\w+)/gm)].map(
        ([, name = ""]) => ({ name, path }),
      ),
    );
  return [...groupBy(defined, ({ name }) => name)]
    .filter(([name]) => homonyms[name] === undefined)
    .map(([name, places]) => ({
      key: ["types", name],
      count: places.length,
      limit: 1,
      text: `${name} is exported by ${places.map(({ path }) => path).join(" and ")}: rename one of them`,
    }));
}

const earlyReleases = (all: readonly Source[]): readonly Excess[] =>
  all
    .filter(({ path }) => /^(?:lib|cmd)\/.*\.ts$/.test(path))
    .flatMap(({ path, text }) => unawaitedReturns(path, text))
    .map(text => ({ key: ["returns", text], count: 1, limit: 0, text }));

const excesses = (all: readonly Source[]): readonly Excess[] =>
  [...roomSizes(all), ...fileSizes(all), ...phraseUses(all), ...typeNames(all), ...earlyReleases(all)].filter(
    ({ count, limit }) => count > limit,
  );

const allowed = (baseline: unknown, key: readonly string[]): number =>
  Number(key.reduce((here, step) => (here as Record<string, unknown> | undefined)?.[step], baseline) ?? 0);

/** Where sources break a convention beyond a baseline, with what to write instead. One line each. */
export const brokenConventions = (all: readonly Source[], baseline: unknown): readonly string[] =>
  excesses(all).flatMap(({ key, count, text }) => {
    const most = allowed(baseline, key);
    if (count <= most) return [];
    if (most === 0) return [text];
    const remedy = `at most ${most} are allowed, and the files that changed last come first`;
    return [`${text}\n(${key.at(-1)}: ${count}; ${remedy})`];
  });

/** The files that changed last come first, so that uses of a phrase that are new are at the head of their list. */
async function newestFirst(all: readonly Source[]): Promise<readonly Source[]> {
  const dated = all.map(async source => ({ source, changed: (await stat(`${root}/${source.path}`)).mtimeMs }));
  return (await Promise.all(dated)).sort((a, b) => b.changed - a.changed).map(({ source }) => source);
}

/** Where the checkout breaks a convention, as `brokenConventions`. */
export const checkConventions = async (): Promise<readonly string[]> =>
  brokenConventions(await newestFirst(await sources()), JSON.parse(await readFile(baselineFile, "utf8")));

/** Writes the current numbers as the baseline. */
async function writeBaseline(): Promise<void> {
  const baseline: Record<string, unknown> = {};
  for (const { key, count } of excesses(await sources())) {
    let here = baseline;
    for (const step of key.slice(0, -1)) {
      here[step] ??= {};
      here = here[step] as Record<string, unknown>;
    }
    here[key.at(-1) ?? ""] = count;
  }
  await writeFile(baselineFile, `${JSON.stringify(baseline, undefined, 2)}\n`);
}

if (import.meta.main) await writeBaseline();
