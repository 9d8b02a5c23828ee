import { createHash } from "node:crypto";
import type { Argv } from "../../io/runner.ts";

/** How many locks there are for datasets: more than scripts that run at once, and few enough to leave lying. */
const datasetLocks = 16;

/**
 * The text of a shell that runs a program while it holds the lock $1 of the host. Where flock(1) or the folder of locks is not
 * there, nothing can be done but to go without. The file is opened by the shell, for reading: a file of another account in a folder
 * for all may not be opened to be created (sysctl fs.protected_regular), as flock(1) does by itself. The shell stays, since sudo
 * closes what it is handed.
 */
const lockedText = `lock=/run/lock/csimux-$1; shift
[ -e "$lock" ] || (umask 022; true >"$lock") 2>/dev/null
if [ -r "$lock" ] && command -v flock >/dev/null; then
  exec 9<"$lock"
  flock -w 60 9 || { echo "the lock $lock is busy" >&2; exit 1; }
fi
"$@"`;

/** Runs a program alone on its host: nothing else runs under the name of this lock meanwhile, in whatever process. */
export const locked = (lock: string, argv: Argv): Argv => ["sh", "-c", lockedText, "sh", lock, ...argv];

/** The lock of a dataset. */
export const datasetLock = (name: string): string =>
  `zfs-${createHash("sha256").update(name).digest().readUInt8(0) % datasetLocks}`;
