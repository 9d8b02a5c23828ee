import { readFileSync } from "node:fs";
import type { ValueResolver } from "../lib/schema/value-resolver.ts";

/** What the configuration may see of the machine: environment variables and small files named by `…File` keys. */
export const valueResolver = (env: Readonly<Record<string, string | undefined>>): ValueResolver => ({
  env: name => env[name],
  file: path => {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return undefined;
    }
  },
});
