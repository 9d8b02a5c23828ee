import { groupBy } from "../core/group-by.ts";
import type { Input } from "./input.ts";

const folderOf = (file: string): string => (file.includes("/") ? file.slice(0, file.lastIndexOf("/") + 1) : "");

const isMain = ({ role, text }: Input): boolean => role === "main" || /^["']?driver["']?:\s*["']?proxy\b/m.test(text);

/**
 * Inputs that belong together. One main file makes one deployment of everything; of several in different folders each
 * has what lies in or below its folder, and what lies elsewhere is checked on its own.
 */
export function deployments(inputs: readonly Input[]): readonly (readonly Input[])[] {
  const folders = new Set(inputs.filter(isMain).map(({ file }) => folderOf(file)));
  if (folders.size < 2) return [inputs];
  const nearest = ({ file }: Input): string =>
    [...folders].filter(folder => file.startsWith(folder)).sort((a, b) => b.length - a.length)[0] ?? "elsewhere";
  return [...groupBy(inputs, nearest).values()];
}
