import { posix } from "node:path";
import { groupBy } from "../core/group-by.ts";
import type { Input } from "./input.ts";

const folderOf = (file: string): string => (file.includes("/") ? file.slice(0, file.lastIndexOf("/") + 1) : "");

const saysProxy = ({ role, text }: Input): boolean =>
  role !== "connection" && /^["']?driver["']?:\s*["']?proxy\b/m.test(text);

/** `proxy.configFolder` of a main file; undefined where there is none. */
const configFolder = ({ text }: Input): string | undefined =>
  /\bconfigFolder["']?:\s*["']?([^"'\s#,}]+)/.exec(text)?.[1];

/**
 * Whether the folder of `other` is the connection folder of `main`: seen from the main file, or, of a path inside a container, by its
 * last part. A file that says "driver: proxy" there is a connection, and a wrong one.
 */
function isConnectionOf(main: Input, other: Input): boolean {
  const folder = configFolder(main);
  if (folder === undefined || other === main) return false;
  const here = posix.normalize(folderOf(other.file)).replace(/\/$/, "");
  if (folder.startsWith("/")) {
    const last = posix.basename(folder);
    return here === folder || (posix.basename(here) === last && folderOf(other.file).startsWith(folderOf(main.file)));
  }
  return here === posix.join(folderOf(main.file), folder).replace(/\/$/, "");
}

/**
 * Inputs that belong together. A main file that was named as such makes one deployment of everything. Otherwise so does a single
 * one that was met; of several in different folders each has what lies in or below its folder, and what lies elsewhere is
 * checked on its own.
 */
export function deployments(inputs: readonly Input[]): readonly (readonly Input[])[] {
  if (inputs.some(({ role }) => role === "main")) return [inputs];
  const proxies = inputs.filter(saysProxy);
  const mains = proxies.filter(each => !proxies.some(main => isConnectionOf(main, each)));
  const folders = new Set(mains.map(({ file }) => folderOf(file)));
  if (folders.size < 2) return [inputs];
  const nearest = ({ file }: Input): string =>
    [...folders].filter(folder => file.startsWith(folder)).sort((a, b) => b.length - a.length)[0] ?? "elsewhere";
  return [...groupBy(inputs, nearest).values()];
}
