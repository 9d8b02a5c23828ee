import { readFileSync } from "node:fs";
import type { Outside } from "../lib/schema/outside.ts";

/** What the configuration may see of the machine: environment variables and small files named by `…File` keys. */
export const outsideOf = (env: Readonly<Record<string, string | undefined>>): Outside => ({
  env: name => env[name],
  file: path => {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return undefined;
    }
  },
});
