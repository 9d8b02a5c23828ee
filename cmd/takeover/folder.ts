import { mkdir, open, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { errnoOf } from "../../lib/core/errors.ts";
import { UsageError } from "../terminal/usage-error.ts";

/** An output file; `secret`: readable only by its owner. */
export interface OutputFile {
  readonly path: string;
  readonly text: string;
  readonly secret?: true;
}

/** Writes the files into a new or empty folder; never overwrites anything. Throws UsageError. */
export async function writeNew(folder: string, files: readonly OutputFile[]): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    if ((await readdir(folder)).length > 0) throw new UsageError(`the folder ${folder} is not empty; name a new one`);
    for (const { path, text, secret } of files) {
      const file = join(folder, path);
      await mkdir(dirname(file), { recursive: true, mode: 0o700 });
      const handle = await open(file, "wx", secret ? 0o600 : 0o644);
      await handle.writeFile(text).finally(() => handle.close());
    }
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`cannot write ${folder} (${errnoOf(error) ?? String(error)})`);
  }
}
