import { mkdir, open, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { errnoOf } from "../../lib/core/errno.ts";
import { UsageError } from "../terminal/usage-error.ts";

/** A file that is to be written; `secret`: for its owner's eyes only. */
export interface OutputFile {
  readonly path: string;
  readonly text: string;
  readonly secret?: true;
}

/** Writes the files into a folder that is new or empty; nothing that is there is touched. Throws UsageError. */
export async function writeNew(folder: string, files: readonly OutputFile[]): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    if ((await readdir(folder)).length > 0)
      throw new UsageError(`the folder ${folder} is not empty; name a new one, nothing is ever overwritten`);
    for (const { path, text, secret } of files) {
      const file = join(folder, path);
      await mkdir(dirname(file), { recursive: true, mode: 0o700 });
      const handle = await open(file, "wx", secret ? 0o600 : 0o644);
      await handle.writeFile(text).finally(() => handle.close());
    }
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${folder} cannot be written (${errnoOf(error) ?? String(error)})`);
  }
}
