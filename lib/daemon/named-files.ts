import { createHash } from "node:crypto";
import type { ValueResolver } from "../schema/value-resolver.ts";

/** A resolver, and whether all files that it has read are still the same. Keeps no content. */
export function comparing({ env, file }: ValueResolver): {
  readonly resolver: ValueResolver;
  readonly areEqual: () => boolean;
} {
  const read = new Map<string, string>();
  const digest = (content: string | undefined) =>
    content === undefined ? "" : createHash("sha256").update(content).digest("base64");
  const reading = (path: string): string | undefined => {
    const content = file(path);
    read.set(path, digest(content));
    return content;
  };
  return {
    resolver: { env, file: reading },
    areEqual: () => [...read].every(([path, before]) => digest(file(path)) === before),
  };
}
