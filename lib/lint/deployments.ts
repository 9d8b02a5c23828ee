import { posix } from "node:path";
import { groupBy } from "../core/group-by.ts";
import type { Input } from "./input.ts";

const folderOf = (file: string): string => (file.includes("/") ? file.slice(0, file.lastIndexOf("/") + 1) : "");

const isProxy = ({ role, text }: Input): boolean =>
  role !== "connection" && /^["']?driver["']?:\s*["']?proxy\b/m.test(text);

/** `proxy.configFolder` of a main file; undefined if there is none. */
const configFolder = ({ text }: Input): string | undefined =>
  /\bconfigFolder["']?:\s*["']?([^"'\s#,}]+)/.exec(text)?.[1];

/**
 * Whether `other` is in the connection folder of `main`: relative to the main file, or, for a path inside a container, by the last part.
 * A file with "driver: proxy" there is a wrong connection.
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
 * Groups inputs by deployment. A main file named by the user, or a single one, makes one deployment of everything. With several in
 * different folders, each has the files in and below its folder; other files are checked separately.
 */
export function deployments(inputs: readonly Input[]): readonly (readonly Input[])[] {
  if (inputs.some(({ role }) => role === "main")) return [inputs];
  const proxies = inputs.filter(isProxy);
  const mains = proxies.filter(each => !proxies.some(main => isConnectionOf(main, each)));
  const folders = new Set(mains.map(({ file }) => folderOf(file)));
  if (folders.size < 2) return [inputs];
  const nearest = ({ file }: Input): string =>
    [...folders].filter(folder => file.startsWith(folder)).sort((a, b) => b.length - a.length)[0] ?? "elsewhere";
  return [...groupBy(inputs, nearest).values()];
}
