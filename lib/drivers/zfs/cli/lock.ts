import { createHash } from "node:crypto";
import type { Argv } from "../../../io/runner.ts";
import { quoted, type Step } from "../../../io/script.ts";

// Changes under a lock of the host, which every csimux takes, and what is compared under it.

/** How zfs is called on the host; see Programs. */
interface Zfs {
  readonly zfs: Argv;
}

/** The number of locks for datasets: more than scripts that run at once, and few enough to leave behind. */
const datasetLocks = 16;

/**
 * A shell that runs a program while it holds the lock $1 of the host; without flock(1) or the folder of locks it just runs it. Every
 * account, with or without sudo, uses the same lock, so it lies in a folder for all: the file is created only where nothing
 * exists, and no link or pipe of someone else is opened. The shell opens it for reading, because one account may not open
 * another's file in such a folder for creation (sysctl fs.protected_regular), as flock(1) itself does. The shell stays, since sudo
 * closes the descriptors that it inherits. The flock of busybox cannot wait, and prints its usage.
 */
export const lockText = `lock=/run/lock/csimux-$1; shift
if command -v flock >/dev/null; then
  [ -e "$lock" ] || [ -L "$lock" ] || (umask 022; set -C; : >"$lock") 2>/dev/null
  if [ -e "$lock" ] || [ -L "$lock" ]; then
    [ ! -L "$lock" ] && [ -f "$lock" ] && [ -r "$lock" ] || {
      echo "the lock $lock is not a file that can be read: see who made it, and remove it" >&2; exit 1
    }
    exec 9<"$lock"
    usage=$(flock -w 60 9 2>&1) || {
      n=0
      until [ -n "$usage" ] && flock -n 9; do
        n=$((n+1))
        [ -n "$usage" ] && [ $n -lt 300 ] || { echo "the lock $lock is busy" >&2; exit 1; }
        sleep 0.2
      done
    }
  fi
fi
`;

/** Whether the shell holds that lock. */
export const hasLock = 'command -v flock >/dev/null && [ -e "$lock" ]';

/** Runs a program alone on its host: no other process of this lock runs meanwhile. */
export const locked = (lock: string, argv: Argv): Argv => ["sh", "-c", `${lockText}"$@"`, "sh", lock, ...argv];

/** The lock of a dataset. */
export const datasetLock = (name: string): string =>
  `zfs-${createHash("sha256").update(name).digest().readUInt8(0) % datasetLocks}`;

/**
 * $1 is a guid, $2 a dataset, $3 a property, $4 the argv of zfs as a line; the rest is for `text`. That runs if the dataset has
 * this guid, and the property is not "true" on it: as in `ownValue`, what it inherits does not count, but what came with a stream does, for
 * a backup that was received with its properties is a finished volume.
 */
const onlyIfText = (
  text: string,
): string => `eval "found=\\$($4 get -Hp -o value,source guid,\\$3 \\"\\$2\\" </dev/null)" || exit 1
case $found in
  "$1	-
true	local" | "$1	-
true	received") ;;
  "$1	-
"*) shift 4
${text}
exit;;
esac
echo "$2 was changed by another call" >&2
exit 1`;

/** What a change of a dataset is compared with, under its lock: its guid, if that is known, and a property that must not be "true" on it. */
export interface Compared {
  readonly dataset: string;
  readonly guid: string | undefined;
  readonly property: string;
}

/** Runs the text of a shell with words for it under the lock of a dataset, and, where its guid is known, as `onlyIf` does. */
export function underLock(
  { zfs }: Zfs,
  { dataset, guid, property }: Compared,
  text: string,
  words: readonly string[],
): Argv {
  const lock = datasetLock(dataset);
  if (!guid) return ["sh", "-c", lockText + text, "sh", lock, ...words];
  const compared = [guid, dataset, property, zfs.map(quoted).join(" ")];
  return ["sh", "-c", lockText + onlyIfText(text), "sh", lock, ...compared, ...words];
}

/**
 * $1 is "proved" or empty, $2 a property, $3 its value, $4 the argv of zfs as a line, $5 a dataset; the rest is a program, which runs if the property
 * has this value on the dataset itself.
 */
const whileStillText = `if [ -n "$1" ]; then
  ${hasLock} || {
    echo "the host has no flock(1) or no folder /run/lock, without which two controllers could change $5 at once" >&2; exit 1
  }
fi
eval "found=\\$($4 get -Hp -o value,source \\"\\$2\\" \\"\\$5\\" </dev/null)" || exit 1
case $found in
  "$3	local" | "$3	received") ;;
  *) echo "$5 was changed by another call" >&2; exit 1;;
esac
shift 5
"$@"`;

/** Runs a program under the lock of a dataset, if that has this guid, and a property has this value on it. */
export function whileStill(
  programs: Zfs,
  dataset: string,
  guid: string | undefined,
  { property, value, proved }: { readonly property: string; readonly value: string; readonly proved: boolean },
  argv: Argv,
): Argv {
  const words = [proved ? "proved" : "", property, value, programs.zfs.map(quoted).join(" "), dataset];
  return underLock(programs, { dataset, guid, property: "type" }, whileStillText, [...words, ...argv.map(String)]);
}

/** $1 is a property, $2 a size, $3 the argv of zfs as a line, $4 a dataset; the rest is a program, which runs unless the property is larger. */
const unlessLargerText = `eval "size=\\$($3 get -Hp -o value \\"\\$1\\" \\"\\$4\\" </dev/null)" || exit 1
[ "$size" -le "$2" ] || { echo "$4 was changed by another call" >&2; exit 1; }
shift 4
"$@"`;

/** Runs a program that sets a size under the lock of a dataset, if that has this guid (where it is known), and the property is not larger. */
export function unlessLarger(
  programs: Zfs,
  dataset: string,
  property: string,
  bytes: bigint,
  argv: Argv,
  guid?: string,
): Argv {
  const words = [property, String(bytes), programs.zfs.map(quoted).join(" "), dataset, ...argv.map(String)];
  return underLock(programs, { dataset, guid, property: "type" }, unlessLargerText, words);
}

/** Runs a program under the lock of a dataset, if that has this guid and the property is not "true" on it; without a guid in any case. */
export function onlyIf(programs: Zfs, dataset: string, guid: string | undefined, property: string, argv: Argv): Argv {
  if (!guid) return argv;
  // The program keeps the descriptor with the lock; sudo would close it.
  const isPlainZfs = programs.zfs.length === 1 && argv[0] === programs.zfs[0];
  return underLock(programs, { dataset, guid, property }, isPlainZfs ? 'exec "$@"' : '"$@"', argv);
}

/** Prints a line where the account has no locks, or where others can hold them: who can read a file can lock it (flock(2)). */
const concernsText = `cd /run/lock 2>/dev/null && [ -w . ] && command -v flock >/dev/null || exec echo "its host has no flock(1), or no\
 /run/lock in which its account may write, so two controllers could change a dataset at once: install util-linux, or log in as root"
others=$(awk -F: -v me="$(id -un)" '$1 != "root" && $1 != me && $7 !~ /(nologin|false|sync|halt|shutdown)$/ { print $1 }' /etc/passwd)
[ -z "$others" ] || echo "other accounts can log in to its host and hold the locks /run/lock/csimux-*, with which every change fails\
 after a minute: keep them away from it:" $others`;
export const lockConcerns: Step = { name: "locks", argv: ["sh", "-c", concernsText], onFailure: "go-on", reads: true };
