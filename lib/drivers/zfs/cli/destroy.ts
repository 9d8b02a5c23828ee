import type { Argv, Output } from "../../../io/runner.ts";
import { type Outputs, quoted, type Step } from "../../../io/script.ts";
import { type DestroyOptions, type ServedFilesystem, ZfsError } from "../zfs.ts";
import { outputOf } from "./answers.ts";
import { clientsIn, type ExportCache, infoStep, inUse, usersStep } from "./nfs.ts";
import { type CommandPrefixes, datasetLock, locked } from "./steps.ts";

/** What destroying needs of who calls zfs. */
export interface DestroyPorts {
  readonly words: CommandPrefixes;
  readonly exports: ExportCache;
  run(steps: readonly Step[], signal: AbortSignal): Promise<Outputs>;
}

/** How many snapshots one word names: a word has up to 128 KiB (execve(2)), a name up to 255 bytes. */
const snapshotsAtOnce = 256;

/** How often the export cache is emptied for one file system. */
const flushes = 3;

/** For how long that is begun again at most, in milliseconds. */
const flushesMs = 10_000;

/**
 * $1 and $2 are command lines, the second for when the first has failed. What they say is kept from their own streams: nobody reads
 * these any more when the login was lost, and a program that writes then is killed in the middle (SIGPIPE).
 */
const orElseText = `said=$(eval "$1" 2>&1) && exit
code=$?
eval "$2" >/dev/null 2>&1
printf '%s\\n' "$said" >&2
exit "$code"`;

const line = (argv: Argv): string => argv.map(quoted).join(" ");

/**
 * Destroys a dataset with some of its snapshots. What is served is unmounted before anything of it is destroyed: that fails while
 * somebody uses it, and zfs shares again what it could not unmount (libzfs, zfs_unmount). `zfs destroy` does the same, but only
 * after its snapshots, and in OpenZFS 2.1 it forgets the usershare; where there is neither, it is left to it. Whatever fails,
 * the file system is mounted and shared again.
 */
function destroyStep({ zfs }: CommandPrefixes, name: string, { snapshots = [], served }: DestroyOptions): Step {
  const batches = Array.from({ length: Math.ceil(snapshots.length / snapshotsAtOnce) }, (_, at) =>
    snapshots.slice(at * snapshotsAtOnce, (at + 1) * snapshotsAtOnce).join(","),
  );
  const rest = batches.map(some => line([...zfs, "destroy", `${name}@${some}`])).join(" && ");
  const whole = line([...zfs, "destroy", name]);
  // Snapshots that somebody else has destroyed meanwhile are no reason to stop: the last command tells whether all are gone.
  const destroy = rest === "" ? whole : `{ ${rest}; ${whole}; }`;
  if (!served && rest === "") return { name: "destroy", argv: [...zfs, "destroy", name] };
  const unmount = served && (rest !== "" || served.protocol === "smb");
  const first = unmount ? `${line([...zfs, "unmount", name])} && ${destroy}` : destroy;
  const last = served ? `${line([...zfs, "mount", name])}; ${line([...zfs, "share", name])}` : ":";
  return { name: "destroy", argv: locked(datasetLock(name), ["sh", "-c", orElseText, "sh", first, last]) };
}

/** Destroys a dataset. Throws "used" for what NFS clients use, before anything is done to it. */
export function destroyDataset(
  by: DestroyPorts,
  name: string,
  how: DestroyOptions,
  signal: AbortSignal,
): Promise<Output> {
  const step = destroyStep(by.words, name, how);
  const { served } = how;
  if (served?.protocol === "nfs") return destroyExported(by, served, step, signal);
  return by.run([step], signal).then(outputs => outputOf(outputs, step.name));
}

/**
 * The NFS server keeps what clients have used of late in a cache, which keeps it from being unmounted: it is emptied first, with the
 * file system still exported, so that a client that goes on using it is not disturbed and brings it back at once.
 */
async function destroyExported(
  by: DestroyPorts,
  served: ServedFilesystem,
  step: Step,
  signal: AbortSignal,
): Promise<Output> {
  const { words, exports, run } = by;
  const look = usersStep(served.mountpoint, words.privileged);
  const end = performance.now() + flushesMs;
  for (let flushed = 0; ; flushed++) {
    const outputs = await run([look, { ...step, unless: look.name }], signal);
    const done = outputs.get(step.name);
    if (done) return done;
    const clients = clientsIn(outputOf(outputs, look.name).stdout);
    if (clients.length > 0) throw await used(by, served, clients, signal);
    if (flushed === flushes || performance.now() > end)
      throw new ZfsError("busy", `the NFS server holds on to ${served.mountpoint}; a client may use it`);
    await exports.flushed(signal);
  }
}

async function used(
  { words, run }: DestroyPorts,
  { mountpoint }: ServedFilesystem,
  clients: readonly string[],
  signal: AbortSignal,
): Promise<ZfsError> {
  const step = infoStep(clients, words.privileged);
  const { stdout } = outputOf(await run([step], signal), step.name);
  return new ZfsError("used", inUse(mountpoint, clients, stdout));
}
