import { createHash } from "node:crypto";
import type { Argv } from "../../../io/runner.ts";

/** How many locks there are for datasets: more than scripts that run at once, and few enough to leave lying. */
const datasetLocks = 16;

/**
 * The text of a shell that runs a program while it holds the lock $1 of the host. Where flock(1) or the folder of locks is not
 * there, nothing can be done but to go without. Accounts share a lock, with or without sudo, so it lies in a folder for all: the file
 * is made only where nothing is, and neither a link nor a pipe that somebody else has put there is opened. It is opened by the shell,
 * for reading: a file of another account in a folder for all may not be opened to be created (sysctl fs.protected_regular), as flock(1)
 * does by itself. The shell stays, since sudo closes what it is handed. The flock of busybox cannot wait, and says so.
 */
const lockedText = `lock=/run/lock/csimux-$1; shift
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
"$@"`;

/** Runs a program alone on its host: nothing else runs under the name of this lock meanwhile, in whatever process. */
export const locked = (lock: string, argv: Argv): Argv => ["sh", "-c", lockedText, "sh", lock, ...argv];

/** The lock of a dataset. */
export const datasetLock = (name: string): string =>
  `zfs-${createHash("sha256").update(name).digest().readUInt8(0) % datasetLocks}`;
