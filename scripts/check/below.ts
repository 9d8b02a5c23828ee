import { readdirSync } from "node:fs";
import { join } from "node:path";
import { errnoOf } from "../../lib/core/errors.ts";

/**
 * The files and folders below a folder, relative to it and sorted. Links are listed, not followed: Bun's recursive readdir follows them,
 * endlessly in a loop. Folders that vanish meanwhile are empty.
 */
export function below(folder: string, files: "files only" | "all" = "all"): readonly string[] {
  const entriesOf = (under: string) => {
    try {
      return readdirSync(join(folder, under), { withFileTypes: true });
    } catch (error) {
      if (under !== "" && errnoOf(error) === "ENOENT") return [];
      throw error;
    }
  };
  const walk = (under: string): readonly string[] =>
    entriesOf(under).flatMap(entry => {
      const path = join(under, entry.name);
      if (entry.isDirectory()) return files === "all" ? [path, ...walk(path)] : walk(path);
      return files === "all" || entry.isFile() ? [path] : [];
    });
  return walk("").toSorted();
}
