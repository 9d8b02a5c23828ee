import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { root } from "../spawned.ts";

/** Committed files that are made from other files. */
export interface Generated {
  /** Texts by path below the checkout. */
  readonly files: ReadonlyMap<string, string>;
  /** A folder that contains nothing else, if there is one. */
  readonly folder?: string;
}

async function leftovers({ files, folder }: Generated, checkout: string): Promise<readonly string[]> {
  if (folder === undefined) return [];
  const entries = await readdir(`${checkout}/${folder}`, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries
    .filter(entry => entry.isFile())
    .map(entry => `${entry.parentPath}/${entry.name}`.slice(checkout.length + 1))
    .filter(path => !files.has(path));
}

/** The paths with a committed text that differs from the generated one. */
export async function stale(generated: Generated, checkout = root): Promise<readonly string[]> {
  const changed: string[] = [];
  for (const [path, text] of generated.files) {
    const committed = await readFile(`${checkout}/${path}`, "utf8").catch(() => undefined);
    if (committed !== text) changed.push(path);
  }
  return [...changed, ...(await leftovers(generated, checkout))];
}

/** Writes the files, and removes others from their folder. */
export async function write(generated: Generated): Promise<void> {
  for (const path of await leftovers(generated, root)) await rm(`${root}/${path}`);
  for (const [path, text] of generated.files) {
    await mkdir(dirname(`${root}/${path}`), { recursive: true });
    await writeFile(`${root}/${path}`, text);
  }
}
