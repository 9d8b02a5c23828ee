import type { Semaphore } from "../../core/semaphore.ts";
import { fileThreads } from "../../io/file-threads.ts";
import { type Files, pooledFiles } from "./files.ts";
import { withSharedSync } from "./shared-sync.ts";

type Verb<A extends readonly unknown[], T> = (path: string, ...more: A) => Promise<T>;

/** The same files; what is beyond the free slots of a path waits. */
export function withSlots(files: Files, slotsOf: (path: string) => Semaphore): Files {
  const bounded =
    <A extends readonly unknown[], T>(verb: Verb<A, T>): Verb<A, T> =>
    (path, ...more) =>
      slotsOf(path).run(() => verb(path, ...more));
  return {
    entry: bounded(files.entry),
    facts: bounded(files.facts),
    makeFolder: bounded(files.makeFolder),
    removeFolder: bounded(files.removeFolder),
    removeFile: bounded(files.removeFile),
    rename: bounded(files.rename),
    realPath: bounded(files.realPath),
    names: bounded(files.names),
    readText: bounded(files.readText),
    writeText: bounded(files.writeText),
    sync: bounded(files.sync),
    chmod: bounded(files.chmod),
    chown: bounded(files.chown),
    usable: bounded(files.usable),
    statfs: bounded(files.statfs),
  };
}

const servers = new Map<string, Files>();
/** How many servers are known before the first one is forgotten, whose files then are merely made again. */
const manyServers = 256;

/** The files of connections whose base folder is a share of `server`; all connections to one server have the same. */
export function filesOn(server: string): Files {
  const known = servers.get(server);
  if (known) return known;
  const files = withSharedSync(withSlots(pooledFiles, () => fileThreads.onServer(server)));
  const [oldest] = servers.keys();
  if (servers.size >= manyServers && oldest !== undefined) servers.delete(oldest);
  servers.set(server, files);
  return files;
}
