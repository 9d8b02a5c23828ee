import { readdir, readFile } from "node:fs/promises";
import { parseAllDocuments } from "yaml";
import { modules } from "../lib/drivers/index.ts";
import { root } from "./spawned.ts";

async function filesBelow(folder: string): Promise<readonly string[]> {
  const entries = await readdir(`${root}/${folder}`, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries.filter(entry => entry.isFile()).map(entry => `${entry.parentPath}/${entry.name}`);
}

/** Values of `driver:` that the examples show. */
async function exampleDrivers(): Promise<ReadonlySet<string>> {
  const files = (await filesBelow("examples")).filter(file => /\.ya?ml$/.test(file));
  const texts = await Promise.all(files.map(file => readFile(file, "utf8")));
  const documents = texts.flatMap(text => [...parseAllDocuments(text)]);
  const drivers = documents.map(document => document.get("driver"));
  return new Set(drivers.filter(driver => typeof driver === "string"));
}

/** The folders of lib/drivers whose module.ts gives an `open`: drivers that csimux serves, not only checks, and that make volumes. */
async function openFolders(): Promise<readonly string[]> {
  const entries = await readdir(`${root}/lib/drivers`, { withFileTypes: true });
  const folders = entries.filter(entry => entry.isDirectory()).map(entry => entry.name);
  const texts = await Promise.all(
    folders.map(name => readFile(`${root}/lib/drivers/${name}/module.ts`, "utf8").catch(() => "")),
  );
  return folders.filter((_, index) => /^\s+open[:,(]/m.test(texts[index] ?? "") && provisions(texts[index] ?? ""));
}

/** Whether one of the modules in a text makes volumes; the suite is about those. */
const provisions = (text: string): boolean =>
  (text.match(/driverModule\(/g) ?? []).length > (text.match(/provisions: false/g) ?? []).length;

/** Whether the tests of a driver folder run the suite of tests/contract; to import a part of it proves nothing. */
async function hasContractTest(folder: string): Promise<boolean> {
  const files = [...(await filesBelow(`tests/drivers/${folder}`)), `${root}/tests/drivers/${folder}.test.ts`];
  const tests = files.filter(file => file.endsWith(".test.ts"));
  const texts = await Promise.all(tests.map(file => readFile(file, "utf8").catch(() => "")));
  return texts.some(text => /^\s*driverContract\(/m.test(text));
}

/** What is missing for the drivers: an example for each name, a contract test for each folder. One line each. */
export async function checkDrivers(): Promise<readonly string[]> {
  const names = modules.flatMap(module => module.names);
  const shown = await exampleDrivers();
  // truenas-* is a second spelling of freenas-*; one example serves both.
  const missing = names.filter(name => !shown.has(name) && !shown.has(name.replace(/^truenas-/, "freenas-")));
  const folders = await openFolders();
  const tested = await Promise.all(folders.map(hasContractTest));
  return [
    ...missing.map(name => `no file below examples/ has "driver: ${name}"`),
    ...folders
      .filter((_, index) => !tested[index])
      .map(name => `tests/drivers/${name} does not run driverContract of tests/contract`),
  ];
}
