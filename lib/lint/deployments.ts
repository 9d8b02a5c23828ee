import { groupBy } from "../core/group-by.ts";
import type { Input } from "./input.ts";

const folderOf = (file: string): string => (file.includes("/") ? file.slice(0, file.lastIndexOf("/") + 1) : "");

const saysProxy = ({ role, text }: Input): boolean =>
  role !== "connection" && /^["']?driver["']?:\s*["']?proxy\b/m.test(text);

/**
 * Inputs that belong together. A main file that was named as such makes one deployment of everything. Otherwise so does a single
 * one that was met; of several in different folders each has what lies in or below its folder, and what lies elsewhere is
 * checked on its own.
 */
export function deployments(inputs: readonly Input[]): readonly (readonly Input[])[] {
  if (inputs.some(({ role }) => role === "main")) return [inputs];
  const folders = new Set(inputs.filter(saysProxy).map(({ file }) => folderOf(file)));
  if (folders.size < 2) return [inputs];
  const nearest = ({ file }: Input): string =>
    [...folders].filter(folder => file.startsWith(folder)).sort((a, b) => b.length - a.length)[0] ?? "elsewhere";
  return [...groupBy(inputs, nearest).values()];
}
