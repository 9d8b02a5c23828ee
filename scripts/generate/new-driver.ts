import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { root } from "../spawned.ts";

const toy = "tests/toy/local";

/** `local-image` in the form of a type, LocalImage. */
const typeName = (name: string): string =>
  name.replace(/(?:^|-)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** `local-image` in the form of a variable, localImage. */
const variableName = (name: string): string => typeName(name).replace(/^./, letter => letter.toLowerCase());

/** The text of a file of the toy on local files, for a driver of another name. */
const renamed = (text: string, name: string): string =>
  text.replaceAll("toy-local", name).replaceAll("ToyLocal", typeName(name)).replaceAll("toyLocal", variableName(name));

const example = (name: string): string => `# yaml-language-server: $schema=../schemas/${name}.json
# A folder on each node.
driver: ${name}
${name}:
  folder: /var/lib/csimux/${name}
`;

/** The index of drivers with one more. */
const withEntry = (index: string, name: string): string =>
  `import { ${variableName(name)} } from "./${name}/module.ts";\n${index.replace(/\];\n$/, `  ${variableName(name)},\n];\n`)}`;

/**
 * The files of a driver that does what the toy on local files does, by path below the checkout. Throws if the name is not lower-case words
 * with dashes.
 */
export async function driverFiles(name: string): Promise<ReadonlyMap<string, string>> {
  if (!/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/.test(name))
    throw new Error("usage: bun scripts/generate/new-driver.ts <words-with-dashes>");
  const read = async (path: string) => renamed(await readFile(`${root}/${path}`, "utf8"), name);
  const files = new Map<string, string>();
  for (const file of ["schema.ts", "module.ts", "store.ts", "share.ts"]) {
    const text = (await read(`${toy}/${file}`))
      .replaceAll("../../../lib/drivers/", "../")
      .replaceAll("../../../lib/", "../../");
    files.set(`lib/drivers/${name}/${file}`, text);
  }
  const test = (await read(`${toy}/contract.test.ts`)).replace("./module.ts", `../../../lib/drivers/${name}/module.ts`);
  files.set(`tests/drivers/${name}/contract.test.ts`, test);
  files.set(`examples/local/${name}.yaml`, example(name));
  files.set("lib/drivers/index.ts", withEntry(await readFile(`${root}/lib/drivers/index.ts`, "utf8"), name));
  return files;
}

if (import.meta.main) {
  const files = await driverFiles(process.argv[2] ?? "");
  for (const [path, text] of files) {
    if (existsSync(`${root}/${path}`) && path !== "lib/drivers/index.ts") throw new Error(`${path} exists already`);
    await mkdir(dirname(`${root}/${path}`), { recursive: true });
    await writeFile(`${root}/${path}`, text);
    console.log(path);
  }
}
