import type { Argv, Output } from "../../../io/runner.ts";
import { quoted, type Step } from "../../../io/script.ts";
import { datasetOf, discardedName, poolOf } from "../names.ts";
import { property } from "../properties.ts";
import {
  type DestroyOptions,
  type Entries,
  type PropertyQuery,
  type RenameOptions,
  type ServedFilesystem,
  type SureValues,
  type Zfs,
  ZfsError,
} from "../zfs.ts";
import { isGone, outputOf, readEntries, refusal } from "./answers.ts";
import { type Compared, onlyIf, underLock, whileStill } from "./lock.ts";
import { clientsIn, clientsText, type FlushedExports, infoStep, usersText } from "./nfs.ts";
import { incomplete } from "./rows.ts";
import { type Programs, readStep, type ZfsCalls } from "./steps.ts";

/** The number of snapshots in one word: a word has up to 128 KiB (execve(2)), a name up to 255 bytes. */
const snapshotsAtOnce = 256;

/** How often the export cache is flushed for one file system, and within which time, in milliseconds. */
const flushes = 3;
const flushesMs = 10_000;

/**
 * $1 is the mount point of a file system that NFS clients may use, or empty; $2 and $3 are command lines, the second for a failure of the
 * first; the rest precedes a privileged program. Users are printed, and end it before anything has changed. Where $2 is empty, it only asks for
 * them, and succeeds if they could be asked for; what unmounts the file system finds them by itself. The output of the commands does not
 * go to the step's own streams at once: after a lost login nothing reads these, and a program that writes is killed in the middle (SIGPIPE).
 */
const whileUnusedText = `place=$1 first=$2 last=$3; shift 3
if [ -n "$place" ]; then
  ${usersText}
  asked=$?
  [ -z "$found" ] || { printf '%s\\n' "$found"; exit 1; }
  [ -n "$first" ] || exit "$asked"
fi
eval "output=\\$(exec 2>&1; $first)" && exit
code=$?
eval "$last" >/dev/null 2>&1
printf '%s\\n' "$output" >&2
exit "$code"`;

const line = (argv: Argv): string => argv.map(quoted).join(" ");

/**
 * Destroys a dataset with some of its snapshots. A served file system is unmounted first: that fails while it is in use, and zfs
 * shares again what it could not unmount (libzfs, zfs_unmount). `zfs destroy` itself unmounts, too, but only after it has destroyed the
 * snapshots, and OpenZFS 2.1 then forgets the usershare; without either, the unmounting is left to it. After any failure the file
 * system is mounted and shared again. All this happens under a lock of the dataset, also for other processes: of two that destroy a
 * file system at once, the later would restore an export of something that is gone; and what one has made or finished meanwhile, another
 * does not take for what it has inspected.
 */
export function destroyStep(
  programs: Programs,
  name: string,
  { snapshots = [], served, guid, unfinished }: DestroyOptions,
): Step {
  const { zfs } = programs;
  const batches = Array.from({ length: Math.ceil(snapshots.length / snapshotsAtOnce) }, (_, at) =>
    snapshots.slice(at * snapshotsAtOnce, (at + 1) * snapshotsAtOnce).join(","),
  );
  const rest = batches.map(some => line([...zfs, "destroy", `${name}@${some}`])).join(" && ");
  const dataset = line([...zfs, "destroy", name]);
  // Missing snapshots do not stop it: the last command shows whether all are gone.
  const destroy = rest === "" ? dataset : `{ ${rest}; ${dataset}; }`;
  const compared = { dataset: name, guid, property: unfinished ? property.success : property.retained };
  if (!served && rest === "") {
    const argv = onlyIf(programs, name, guid, compared.property, [...zfs, "destroy", name]);
    return { name: "destroy", argv };
  }
  const unmount = served && (rest !== "" || served.protocol === "smb");
  const first = unmount ? `${line([...zfs, "unmount", name])} && ${destroy}` : destroy;
  const last = served ? `${line([...zfs, "mount", name])}; ${line([...zfs, "share", name])}` : ":";
  return { name: "destroy", argv: unusedArgv(programs, compared, served, first, last) };
}

/** The argv of a change under the lock of a dataset, which is compared and must not be in use. */
function unusedArgv(
  programs: Programs,
  compared: Compared,
  served: ServedFilesystem | undefined,
  first: string,
  last: string,
): Argv {
  const place = served?.protocol === "nfs" ? served.mountpoint : "";
  return underLock(programs, compared, whileUnusedText, [place, first, last, ...programs.privileged]);
}

/**
 * $1 is a snapshot, $2 the beginning of another name for it; the rest is zfs. With clones or holds it goes with the last of them
 * (zfs-destroy(8), -d), and gets the other name, which its guid makes unique.
 */
const freeNameText = `snapshot=$1 other=$2
shift 2
output=$("$@" destroy "$snapshot" 2>&1) && exit
case $output in *"could not find any snapshots"*) exit 0;; esac
output=$("$@" destroy -d "$snapshot" 2>&1) || { printf '%s\\n' "$output" >&2; exit 1; }
guid=$("$@" get -Hp -o value guid "$snapshot" 2>/dev/null) && [ -n "$guid" ] || exit 0
exec "$@" rename "$snapshot" "$other$guid"`;

/** The exit code of a step that has changed nothing, because what it compared is otherwise. */
const inDoubt = 3;

/** $1 is a command line that reads, $2 one that destroys if the whole answer is one of the others. */
const destroySureText = `read=$1 destroy=$2
shift 2
eval "rows=\\$($read 2>/dev/null)" && for each; do
  [ "$rows" != "$each" ] || { eval "$destroy"; exit; }
done
exit ${inDoubt}`;

/** As Zfs.destroySure. */
export async function destroySure(
  calls: ZfsCalls,
  snapshot: string,
  { own, inherited }: SureValues,
  query: PropertyQuery,
): Promise<Entries | undefined> {
  const { programs, run } = calls;
  const { zfs } = programs;
  const compared = ["defer_destroy", ...Object.keys(own), ...Object.keys(inherited)];
  const first = ["off\t-", ...Object.values(own).map(each => `${each}\tlocal`)].join("\n");
  const from = `inherited from ${datasetOf(snapshot)}`;
  const answers = Object.values(inherited).reduce<readonly string[]>(
    (all, value) =>
      all.flatMap(each => [`${each}\n-\t-`, ...(value === undefined ? [] : [`${each}\n${value}\t${from}`])]),
    [first],
  );
  const read = line([...zfs, "get", "-Hp", "-o", "value,source", compared.join(","), snapshot]);
  // The program keeps the descriptor with the lock; sudo would close it.
  const destroy = `${zfs.length === 1 ? "exec " : ""}${line([...zfs, "destroy", "-d", snapshot])}`;
  const words = [read, destroy, ...answers];
  const argv = underLock(programs, { dataset: snapshot, guid: undefined, property: "type" }, destroySureText, words);
  const step: Step = { name: "destroy", argv, onFailure: "go-on" };
  const outputs = await run([step, { ...readStep(programs, query), unless: step.name }]);
  const output = outputOf(outputs, step.name);
  if (output.exitCode === inDoubt) return readEntries(outputs, query);
  await proveGone(calls, output, snapshot);
  return undefined;
}

/** Throws unless something was destroyed, or is absent. */
export async function proveGone({ read }: ZfsCalls, output: Output, name: string): Promise<void> {
  if (output.exitCode === 0) return;
  if (!isGone(output, name)) throw refusal(output);
  // One of several commands may have complained, and of something else; or the whole pool was exported meanwhile.
  const found = await read({ names: [poolOf(name), name], properties: ["type"] });
  if (found.has(name)) throw incomplete(`${name} exists, and zfs destroy reported that it does not`);
}

/** Frees the name of a snapshot, which the success of taking one of this name proves. Fails also where the dataset is absent. */
export const freeNameStep = ({ zfs }: Programs, snapshot: string): Step => {
  const other = `${datasetOf(snapshot)}@${discardedName("")}`;
  return { name: "free", argv: ["sh", "-c", freeNameText, "sh", snapshot, other, ...zfs], onFailure: "go-on" };
};

/**
 * Renames a dataset; with RenameOptions, sets values before and after. `zfs rename` unmounts a file system first, which fails while it is in use, before
 * anything has changed (libzfs_dataset.c, zfs_rename). After a failure it is mounted and shared as it was.
 */
export function renameStep(programs: Programs, from: string, to: string, how: Parameters<Zfs["rename"]>[3]): Step {
  const { zfs } = programs;
  const plain = [...zfs, "rename", from, to] as const;
  if (!how || !("before" in how)) {
    const argv = how?.still ? whileStill(programs, how.of ?? from, how.guid, how.still, plain) : plain;
    return { name: "rename", argv, onFailure: "go-on" };
  }
  const { guid, before, after, served } = how;
  const values = (all: RenameOptions["after"]) => Object.entries(all).map(([key, value]) => `${key}=${value}`);
  const first = [[...zfs, "set", ...values(before), from], plain, [...zfs, "set", ...values(after), to]] as const;
  const last = [
    ...Object.keys(before).map(key => [...zfs, "inherit", key, from] as const),
    ...(served ? [[...zfs, "mount", from] as const, [...zfs, "share", from] as const] : []),
  ];
  const [one, other] = [first.map(line).join(" && "), last.map(line).join("; ") || ":"];
  const compared = { dataset: from, guid, property: property.retained };
  return { name: "rename", argv: unusedArgv(programs, compared, served, one, other), onFailure: "go-on" };
}

/**
 * Runs such a step. Throws "used" while NFS clients use the file system, with nothing changed. The cache of the NFS server keeps a
 * file system that clients have used recently from being unmounted. The cache is flushed while the file system is still exported, so that an
 * active client is not disturbed, and fills it again.
 */
export async function whileUnused(
  { programs, run, signal }: ZfsCalls,
  exports: FlushedExports,
  served: ServedFilesystem | undefined,
  step: Step,
): Promise<Output> {
  const end = performance.now() + flushesMs;
  for (let flushed = 0; ; flushed++) {
    const output = outputOf(await run([step]), step.name);
    // Only users are printed on stdout.
    if (!served || output.exitCode === 0 || output.stdout === "") return output;
    const clients = clientsIn(output.stdout);
    if (clients.length > 0) {
      const info = infoStep(clients, programs.privileged);
      const { stdout } = outputOf(await run([info]), info.name);
      throw new ZfsError("used", clientsText(served.mountpoint, clients, stdout));
    }
    if (flushed === flushes || performance.now() > end)
      throw new ZfsError("busy", `the NFS server holds on to ${served.mountpoint}; a client may use it`);
    await exports.flushed(signal);
  }
}

/** Throws "used" or "busy" while NFS clients use a file system. Changes nothing. */
export async function refuseUsed(
  calls: ZfsCalls,
  exports: FlushedExports,
  name: string,
  served: ServedFilesystem,
): Promise<void> {
  const argv = unusedArgv(calls.programs, { dataset: name, guid: undefined, property: "type" }, served, "", ":");
  const output = await whileUnused(calls, exports, served, { name: "unused", argv, onFailure: "go-on" });
  if (output.exitCode !== 0) throw refusal(output);
}
