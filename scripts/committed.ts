import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { root } from "./spawned.ts";

/** Generated texts by path below the checkout, and the folder that holds nothing else, if there is one. */
export interface Generated {
  readonly files: ReadonlyMap<string, string>;
  readonly folder?: string;
}

const read = (path: string): Promise<string | undefined> => readFile(`${root}/${path}`, "utf8").catch(() => undefined);

async function leftovers({ files, folder }: Generated): Promise<readonly string[]> {
  if (folder === undefined) return [];
  const names = await readdir(`${root}/${folder}`).catch(() => []);
  return names.map(name => `${folder}/${name}`).filter(path => !files.has(path));
}

/** The paths whose committed text is not what was generated now. */
export async function stale(generated: Generated): Promise<readonly string[]> {
  const changed: string[] = [];
  for (const [path, text] of generated.files) if ((await read(path)) !== text) changed.push(path);
  return [...changed, ...(await leftovers(generated))];
}

async function replace(generated: Generated): Promise<void> {
  for (const path of await leftovers(generated)) await rm(`${root}/${path}`);
  for (const [path, text] of generated.files) {
    await mkdir(dirname(`${root}/${path}`), { recursive: true });
    await writeFile(`${root}/${path}`, text);
  }
}

/** Writes the files, or with `--check` answers 1 when the committed ones differ. */
export async function commit(generated: Generated, script: string, args: readonly string[]): Promise<number> {
  if (!args.includes("--check")) {
    await replace(generated);
    return 0;
  }
  const old = await stale(generated);
  for (const path of old)
    console.error(`${path} is not what the schemas yield; run bun ${script} and commit the result`);
  return old.length > 0 ? 1 : 0;
}
