import { readFile, writeFile } from "node:fs/promises";
import { below } from "../check/below.ts";
import { fail } from "../say.ts";
import { root } from "../spawned.ts";

const escaped = (text: string): string => text.replace(/[.+]/g, "\\$&");

/** What precedes csimux's version in the files of examples/. */
const before = '(?:newTag: |tag: "|/csimux:|^version: |^appVersion: )';

/** The text of a file with another version of csimux. */
export function withVersion(path: string, text: string, from: string, to: string): string {
  const own = text.indexOf('"node_modules/');
  // package-lock.json also has the versions of other packages, which follow.
  const end = /^package(?:-lock)?\.json$/.test(path) ? (own < 0 ? text.length : own) : text.length;
  const place = path.endsWith(".json") ? '"version": "' : before;
  const pattern = new RegExp(`(${place})${escaped(from)}(?![\\w.-])`, "gm");
  return text.slice(0, end).replace(pattern, `$1${to}`) + text.slice(end);
}

/** The changelog with a section for the version, which takes what was unreleased. Throws if it has that section. */
export function withSection(changelog: string, version: string, date: string): string {
  if (sectionOf(changelog, version) !== undefined) throw new Error(`CHANGELOG.md already has a section ${version}`);
  if (!changelog.includes("\n## Unreleased\n")) throw new Error('CHANGELOG.md has no section "Unreleased"');
  return changelog.replace("\n## Unreleased\n", `\n## Unreleased\n\n## ${version} - ${date}\n`);
}

/** The section of a version, without its heading; undefined if there is none. */
export const sectionOf = (changelog: string, version: string): string | undefined =>
  new RegExp(`^## ${escaped(version)} - .*\n([\\s\\S]*?)(?=^## |$(?![\\s\\S]))`, "m").exec(changelog)?.[1]?.trim();

/** The version in package.json, which all other files repeat. */
export const currentVersion = async (): Promise<string> =>
  (JSON.parse(await readFile(`${root}/package.json`, "utf8")) as { readonly version: string }).version;

/** The files that repeat the version, except the changelog. */
export const versionedFiles = (): readonly string[] => [
  "package.json",
  "package-lock.json",
  ...below(`${root}/examples`)
    .filter(name => /\.(?:yaml|md)$/.test(name) && !name.startsWith("guide/rules"))
    .map(name => `examples/${name}`),
];

async function setVersion(version: string): Promise<void> {
  if (!/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version)) throw new Error(`"${version}" is not a version such as 1.2.3`);
  const from = await currentVersion();
  const changelog = `${root}/CHANGELOG.md`;
  const date = new Date().toISOString().slice(0, 10);
  await writeFile(changelog, withSection(await readFile(changelog, "utf8"), version, date));
  console.log("CHANGELOG.md");
  for (const path of versionedFiles()) {
    const text = await readFile(`${root}/${path}`, "utf8");
    const changed = withVersion(path, text, from, version);
    if (changed === text) continue;
    await writeFile(`${root}/${path}`, changed);
    console.log(path);
  }
}

if (import.meta.main) await setVersion(process.argv[2] ?? "").catch(fail);
