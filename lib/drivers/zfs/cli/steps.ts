import { createHash } from "node:crypto";
import type { Argv } from "../../../io/runner.ts";
import { quoted, type Step } from "../../../io/script.ts";
import type { Copy, DatasetType, Permissions, PropertyQuery } from "../zfs.ts";

/** The longest listing that is taken, in bytes: some hundred thousand snapshots. */
export const listingBytes = 64 << 20;

/** How programs are called on the host. */
export interface CommandPrefixes {
  /** "zfs", or its path, behind sudo where that is needed. */
  readonly zfs: Argv;
  /** "zpool", or its path. Everybody may ask it how pools are. */
  readonly zpool: string;
  /** What comes before chmod, chown and the program for access control lists: sudo, or nothing. */
  readonly privileged: readonly string[];
}

/**
 * A step that runs programs, each after the success of the one before it, on the folder where a dataset is mounted, as their last
 * word, and ends badly when it is not. Needs a step "look" before it that reads `placeProperties`.
 */
const onMountpoint = (step: string, dataset: string, calls: readonly (readonly string[])[]): Step => ({
  name: step,
  argv: ["sh", "-c", placeText(calls.map(call => call.map(quoted).join(" "))), "sh", dataset, { outputOf: "look" }],
  onFailure: "go-on",
});

/**
 * $1 is the name of the dataset, $2 what zfs get said of it: name, property, value and source, with a tab between them. A mountpoint
 * without a source behind it is cut, and perhaps the path of a folder above.
 */
const placeText = (commands: readonly string[]): string => `name=$1 rows="
$2"
case $rows in *"
$name	mounted	yes	"*"
$name	mountpoint	/"*|*"
$name	mountpoint	/"*"
$name	mounted	yes	"*)
  place=\${rows#*"
$name	mountpoint	"}
  place=\${place%%
*}
  case $place in
  *"	"*) place=\${place%%	*};;
  *)
    echo "the mountpoint of $name is cut" >&2
    exit 1;;
  esac;;
*)
  echo "$name is not mounted" >&2
  exit 1;;
esac
${commands.map(each => `${each} "$place"`).join(" && ")}`;

const columns = "name,property,value,source";

/** Properties in the order in which they are asked for, each once. */
export const asked = (properties: readonly string[]): readonly string[] => [...new Set(properties)];

/** Reads properties of some datasets and snapshots; what is not there is complained of. */
export const lookStep = ({ zfs }: CommandPrefixes, { names, properties }: PropertyQuery): Step => ({
  name: "look",
  argv: [...zfs, "get", "-Hp", "-o", columns, asked(properties).join(","), ...new Set(names)],
  reads: true,
  onFailure: "go-on",
  maxBytes: listingBytes,
});

/** Reads properties of datasets and of what of these kinds lies below them, so many levels deep. */
export function listStep(
  { zfs }: CommandPrefixes,
  parents: readonly string[],
  kinds: readonly DatasetType[],
  properties: readonly string[],
  depth: 1 | 2,
): Step {
  const which = ["-d", String(depth), "-t", kinds.join(",")];
  const argv: Argv = [...zfs, "get", "-Hp", ...which, "-o", columns, asked(properties).join(","), ...parents];
  return { name: "list", argv, reads: true, onFailure: "go-on", maxBytes: listingBytes };
}

/** Properties that tell permission steps where a file system is mounted. */
export const placeProperties = ["mounted", "mountpoint"] as const;

const datasets = ["filesystem", "volume"] as const;

/** The kinds with those that a dataset above others can have, so that it is shown with them. */
export const withParent = (kinds: readonly DatasetType[]): readonly DatasetType[] => [
  ...new Set([...kinds, ...datasets]),
];

/**
 * The words of `zfs list` for the names of a dataset and of what of these kinds lies below it, which zfs knows without reading more.
 * They are sorted backwards, so that the dataset itself is the last one and proves that nothing is cut off.
 */
const namesWords = (kinds: readonly DatasetType[], depth: 1 | 2): readonly string[] => [
  ...["list", "-H", "-o", "name", "-S", "name", "-t", withParent(kinds).join(","), "-d", String(depth)],
];

/** Lists the names of a dataset and of what of these kinds lies below it, backwards. */
export const namesStep = (
  { zfs }: CommandPrefixes,
  parent: string,
  kinds: readonly DatasetType[],
  depth: 1 | 2,
): Step => ({
  name: "names",
  argv: [...zfs, ...namesWords(kinds, depth), parent],
  reads: true,
  onFailure: "go-on",
  maxBytes: listingBytes,
});

/** Of the names that a program prints those that contain $1, and the last one, which must be $2. */
const namedText = `part=$1 parent=$2
shift 2
all=$("$@" "$parent") || exit
case "
$all" in
  *"
$parent") ;;
  *) echo "the names below $parent are cut" >&2; exit 1;;
esac
printf %s "\${all%"$parent"}" | grep -F -e "$part" || :
printf '%s\\n' "$parent"`;

/** Lists what of these kinds, up to two levels below a dataset, has a name that contains `part`, and the dataset, one line each. */
export const namedArgv = (
  { zfs }: CommandPrefixes,
  part: string,
  parent: string,
  kinds: readonly DatasetType[],
): Argv => ["sh", "-c", namedText, "sh", part, parent, ...zfs, ...namesWords(kinds, 2)];

/** Ends well where there is no such program, too. Non-interactive logins often have no /sbin on their PATH. */
const poolsText = 'PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; "$@" 2>/dev/null || :';

/** Asks how pools are, one line for each: its name and its state. */
export const poolStep = ({ zpool }: CommandPrefixes, names: readonly string[]): Step => ({
  name: "pools",
  argv: ["sh", "-c", poolsText, "sh", zpool, "list", "-H", "-o", "name,health", ...names],
  reads: true,
});

/** Properties as options of zfs create and its like. */
export const options = (values: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(values).flatMap(([name, value]) => ["-o", `${name}=${value}`]);

/** A shell that ends with 0 only when both ends of a pipe do; it has no other way to tell (POSIX.1-2017, Shell 2.9.2). */
export function piped(from: Argv, to: Argv): Argv {
  const [left, right] = [from.map(quoted).join(" "), to.map(quoted).join(" ")];
  const text = `sent=$({ { ${left}; echo $? >&3; } | ${right} >&2; } 3>&1); got=$?; [ "$got" = 0 ] && [ "$sent" = 0 ]`;
  return ["sh", "-c", text];
}

/** Sends a snapshot into a new dataset, or goes on where a cut one got to: `begun` is the token that it left. */
export function copyStep({ zfs }: CommandPrefixes, { from, to, values }: Copy, begun: string | undefined): Step {
  const sent: Argv = begun === undefined ? [...zfs, "send", from] : [...zfs, "send", "-t", begun];
  const fresh = begun === undefined ? options(values) : [];
  return { name: "copy", argv: piped(sent, [...zfs, "receive", "-u", "-s", ...fresh, to]) };
}

/**
 * Mode, owner and lists in the order in which they do not undo each other: chown clears set-id bits, chmod changes masks. They need
 * a step "look" before them that reads `placeProperties`. With `after`, they run after the success of that step only.
 */
export function permissionSteps(
  words: CommandPrefixes,
  name: string,
  permissions: Permissions | undefined,
  after: string | undefined,
): readonly Step[] {
  if (!permissions) return [];
  const { mode, user, group, acls, aclsProgram } = permissions;
  // Without a group no colon: chown(1) would choose the user's own group, and refuses that for a number.
  const owned = group === undefined ? user : `${user ?? ""}:${group}`;
  const owner = owned === undefined ? [] : [["chown", owned]];
  const calls = [...owner, ...(mode ? [["chmod", mode]] : []), ...acls.map(words => [aclsProgram, ...words])];
  if (calls.length === 0) return [];
  const step = onMountpoint(
    "permit",
    name,
    calls.map(call => [...words.privileged, ...call]),
  );
  return [after === undefined ? step : { ...step, onlyAfter: after }];
}

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
