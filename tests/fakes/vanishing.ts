import { readdirSync, readFileSync } from "node:fs";
import { errnoOf } from "../../lib/core/errors.ts";

/** What `read` answers of files that another process may remove at any moment; `gone` if it has, or has put a file in place of a folder. */
export function unlessGone<Seen>(read: () => Seen, gone: Seen): Seen {
  try {
    return read();
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(errnoOf(error) ?? "")) return gone;
    throw error;
  }
}

/** The names in a folder, none if it is gone. */
export const listOf = (path: string): readonly string[] => unlessGone(() => readdirSync(path), []);

/** The text of a file, "" if it is gone. */
export const textOf = (path: string): string => unlessGone(() => readFileSync(path, "utf8"), "");
