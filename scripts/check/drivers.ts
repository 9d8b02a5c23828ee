import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { parseAllDocuments } from "yaml";
import { modules } from "../../lib/drivers/index.ts";
import type { DriverModule } from "../../lib/drivers/module.ts";
import { root } from "../spawned.ts";
import { below } from "./below.ts";

function filesBelow(folder: string): readonly string[] {
  const path = `${root}/${folder}`;
  return existsSync(path) ? below(path, "files only").map(name => `${path}/${name}`) : [];
}

/** Values of `driver:` in the examples. */
async function exampleDrivers(): Promise<ReadonlySet<string>> {
  const files = filesBelow("examples").filter(file => /\.ya?ml$/.test(file));
  const texts = await Promise.all(files.map(file => readFile(file, "utf8")));
  const documents = texts.flatMap(text => [...parseAllDocuments(text)]);
  const drivers = documents.map(document => document.get("driver"));
  return new Set(drivers.filter(driver => typeof driver === "string"));
}

/** The folders of lib/drivers. */
async function driverFolders(): Promise<readonly string[]> {
  const entries = await readdir(`${root}/lib/drivers`, { withFileTypes: true });
  return entries.filter(entry => entry.isDirectory()).map(entry => entry.name);
}

/** The folders with drivers that create volumes. */
async function openFolders(folders: readonly string[]): Promise<readonly string[]> {
  const texts = await Promise.all(
    folders.map(name => readFile(`${root}/lib/drivers/${name}/module.ts`, "utf8").catch(() => "")),
  );
  return folders.filter((_, index) => /^\s+open[:,(]/m.test(texts[index] ?? "") && provisions(texts[index] ?? ""));
}

/** Whether an exported value is a driver, in its form: every module is made by driverModule(), which has no class. */
const isModule = (value: unknown): value is DriverModule =>
  typeof value === "object" && value !== null && "names" in value && "schema" in value && "open" in value;

/** The names of the drivers of one folder that lib/drivers/index.ts lacks. */
async function unlisted(folder: string): Promise<readonly string[]> {
  const path = `${root}/lib/drivers/${folder}/module.ts`;
  if (!existsSync(path)) return [];
  const exported: Readonly<Record<string, unknown>> = await import(path);
  const found = Object.values(exported).flat().filter(isModule);
  return found.flatMap(({ names }) => names).filter(name => !modules.some(({ names }) => names.includes(name)));
}

/** Whether one of the modules in a text creates volumes. */
const provisions = (text: string): boolean =>
  (text.match(/driverModule\(/g) ?? []).length > (text.match(/provisions: false/g) ?? []).length;

/** The texts of all files below a folder, and of the file next to it, with this suffix. */
async function textsOf(folder: string, end: string): Promise<readonly string[]> {
  const files = [...filesBelow(folder), `${root}/${folder}${end}`].filter(file => file.endsWith(end));
  return Promise.all(files.map(file => readFile(file, "utf8").catch(() => "")));
}

/** A suite, and the class or function that it tests. */
type Part = readonly [suite: string, name: string];

/** A class that implements a role, and a function that returns it. */
const roleShapes = [
  /^export class (\w+)[^{]*? implements [^{]*?(VolumeStore|ShareProtocol)</,
  /^export (?:function|const) (\w+)(?:(?!\{$)[\s\S])*?\): (VolumeStore|ShareProtocol)<\w+> (?:=> \()?\{$/m,
];

/** The stores in a text that create by themselves, and the shares with `publish`: others have no step that can fail. */
function partsIn(text: string): readonly Part[] {
  return text.split(/^(?=export )/m).flatMap((each): readonly Part[] => {
    const [, name = "", role] = roleShapes.map(shape => shape.exec(each)).find(found => found !== null) ?? [];
    if (role === "VolumeStore" && /^ {2,4}async create\(/m.test(each)) return [["storeContract", name]];
    return role === "ShareProtocol" && /^ {2,4}(?:async )?publish[(:]/m.test(each) ? [["shareContract", name]] : [];
  });
}

/** The suites of tests/contract that the tests of a driver folder do not run. */
async function missingSuites(folder: string): Promise<readonly string[]> {
  const tests = (await textsOf(`tests/drivers/${folder}`, ".test.ts")).join("\n");
  const parts = (await textsOf(`lib/drivers/${folder}`, ".ts")).flatMap(partsIn);
  const wanted = [
    ...(/\bdriverContract\(/.test(tests) ? [] : ["driverContract"]),
    ...parts
      .filter(([suite, name]) => !new RegExp(`^\\s*${suite}\\(\\s*"${name}\\b`, "m").test(tests))
      .map(([suite, name]) => `${suite}("${name}", …)`),
  ];
  return wanted.map(
    each => `tests/drivers/${folder} does not run ${each}: call it in a test file there (tests/contract)`,
  );
}

/** Drivers that are missing in the index, and missing examples and contract suites of the drivers, one line each. */
export async function checkDrivers(): Promise<readonly string[]> {
  const names = modules.flatMap(module => module.names);
  const shown = await exampleDrivers();
  // truenas-* is a second spelling of freenas-*; one example serves both.
  const missing = names.filter(name => !shown.has(name) && !shown.has(name.replace(/^truenas-/, "freenas-")));
  const folders = await driverFolders();
  const lost = await Promise.all(
    folders.map(async folder =>
      (await unlisted(folder)).map(
        name =>
          `driver ${name} of lib/drivers/${folder}/module.ts is not in lib/drivers/index.ts: add it to the list there`,
      ),
    ),
  );
  const untested = await Promise.all((await openFolders(folders)).map(missingSuites));
  return [
    ...lost.flat(),
    ...missing.map(
      name => `driver ${name} has no example: write examples/connections/${name}.yaml with "driver: ${name}"`,
    ),
    ...untested.flat(),
  ];
}
