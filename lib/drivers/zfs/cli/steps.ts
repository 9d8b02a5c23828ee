import type { Argv } from "../../../io/runner.ts";
import { type Outputs, piped, quoted, type Step } from "../../../io/script.ts";
import { property } from "../properties.ts";
import type { Copy, DatasetType, Depth, Entries, Inspected, Permissions, PropertyQuery, Values } from "../zfs.ts";
import { onlyIf, unlessLarger, whileStill } from "./lock.ts";
import { descending, isAsked, rowReader } from "./rows.ts";

/** The longest accepted listing in bytes: some hundred thousand snapshots. */
export const listingBytes = 64 << 20;

/** How programs are called on the host. */
export interface Programs {
  /** "zfs", or its path, behind sudo where that is needed. */
  readonly zfs: Argv;
  /** "zpool", or its path; every account may read the state of pools. */
  readonly zpool: string;
  /** Precedes chmod, chown and the program for access control lists: sudo, or nothing. */
  readonly privileged: readonly string[];
}

/** How one call of a verb runs zfs. */
export interface ZfsCalls {
  readonly programs: Programs;
  readonly signal: AbortSignal;
  run(steps: readonly Step[]): Promise<Outputs>;
  read(query: PropertyQuery): Promise<Entries>;
}

/** Runs programs on the mount point of a dataset, until one fails. Needs a step "read" of `mountProperties` before it. */
const onMountpoint = (step: string, dataset: string, calls: readonly (readonly string[])[]): Step => ({
  name: step,
  argv: ["sh", "-c", mountText(calls.map(call => call.map(quoted).join(" "))), "sh", dataset, { outputOf: "read" }],
  onFailure: "go-on",
});

/**
 * A function that sets place to where the dataset $name is mounted, or says why it cannot. $rows is the answer of zfs get, with a line
 * break before it: name, property, value and source, with a tab between them. A mountpoint without a source behind it is cut, and may be
 * the path of a folder above.
 */
export const mountpointText = `mountpoint() {
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
      return 1;;
    esac;;
  *)
    echo "$name is not mounted" >&2
    return 1;;
  esac
}
`;

/** $1 is the name of the dataset, $2 the answer of zfs get. */
const mountText = (commands: readonly string[]): string => `name=$1 rows="
$2"
${mountpointText}mountpoint || exit
${commands.map((each, at) => `${at === commands.length - 1 ? "exec " : ""}${each} "$place"`).join(" && ")}`;

const columns = "name,property,value,source";

/** A program with its words, behind sudo or nothing. */
export const behind = (privileged: readonly string[], program: string, ...words: readonly string[]): Argv => {
  const [first = program, ...rest] = [...privileged, program, ...words];
  return [first, ...rest];
};

/** Properties or names in their order, each once. */
export const unique = (all: readonly string[]): readonly string[] => [...new Set(all)];

const getStep = (
  { zfs }: Programs,
  name: string,
  words: readonly string[],
  properties: readonly string[],
  names: readonly string[],
  roots: readonly string[],
): Step => ({
  name,
  argv: [...zfs, "get", "-Hp", ...words, "-o", columns, unique(properties).join(","), ...names],
  check: () => rowReader(unique(properties), isAsked(names, roots)),
  reads: true,
  onFailure: "go-on",
  maxBytes: listingBytes,
});

/** Reads properties of datasets and snapshots; zfs complains of those that do not exist. */
export const readStep = (programs: Programs, { names, properties }: PropertyQuery): Step =>
  getStep(programs, "read", [], properties, unique(names), []);

/** Reads properties of datasets and of what lies below them, of these types and so many levels deep. */
export const listStep = (
  programs: Programs,
  parents: readonly string[],
  types: readonly DatasetType[],
  properties: readonly string[],
  depth: Depth,
): Step => getStep(programs, "list", ["-d", String(depth), "-t", types.join(",")], properties, parents, parents);

/** The properties that permission steps need. */
export const mountProperties = ["mounted", "mountpoint"] as const;

/** The types with those of datasets that can have children, so that a listing shows the parent. */
export const withParent = (types: readonly DatasetType[]): readonly DatasetType[] => [
  ...new Set([...types, "filesystem", "volume"] as const),
];

/** `zfs list` of names, which zfs knows without reading more; in descending order, so that the parent proves that none is cut off. */
const namesWords = (types: readonly DatasetType[], depth: Depth): readonly string[] => [
  ...["list", "-H", "-o", "name", "-S", "name", "-t", withParent(types).join(","), "-d", String(depth)],
];

/** Lists the names of datasets and of what lies below them, of these types, in descending order. */
export const namesStep = (
  { zfs }: Programs,
  parents: readonly string[],
  types: readonly DatasetType[],
  depth: Depth,
): Step => ({
  name: "names",
  argv: [...zfs, ...namesWords(types, depth), ...parents],
  check: () => descending(isAsked(parents, parents)),
  reads: true,
  onFailure: "go-on",
  maxBytes: listingBytes,
});

/** Of the names that a program prints those with $1 in them, and the last one, which must be $2. */
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

/** Lists the names with `part` in them, up to two levels below a dataset, and the dataset itself, one on each line. */
export const namedArgv = ({ zfs }: Programs, part: string, parent: string, types: readonly DatasetType[]): Argv => [
  "sh",
  "-c",
  namedText,
  "sh",
  part,
  parent,
  ...zfs,
  ...namesWords(types, 2),
];

/** Succeeds also without such a program. Non-interactive logins often have no /sbin on their PATH. */
const poolsText = 'PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; "$@" 2>/dev/null || :';

/** Reads the states of pools, one on each line: its name and its state. */
export const poolStep = ({ zpool }: Programs, names: readonly string[]): Step => ({
  name: "pools",
  argv: ["sh", "-c", poolsText, "sh", zpool, "list", "-H", "-o", "name,health", ...names],
  reads: true,
});

/** Properties as options of zfs create and similar commands. */
export const options = (values: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(values).flatMap(([name, value]) => ["-o", `${name}=${value}`]);

/**
 * Sets values, and lets others be inherited. A reservation comes before the quota: of several values zfs sets those that it can
 * (OpenZFS 2.1 to 2.3, module/zfs/zfs_ioctl.c, zfs_set_prop_nvlist).
 */
export function setSteps(
  { zfs }: Pick<Programs, "zfs">,
  name: string,
  values: Values,
  of: Inspected = {},
): readonly Step[] {
  const { guid, still, grows, unfinished } = of;
  const proved = (argv: Argv): Argv => {
    if (still) return whileStill({ zfs }, name, guid, still, argv);
    if (grows) return unlessLarger({ zfs }, name, grows.property, grows.bytes, argv, guid);
    return onlyIf({ zfs }, name, guid, unfinished ? property.success : "type", argv);
  };
  const pairs = Object.entries(values).flatMap(([key, value]) => (value === undefined ? [] : [`${key}=${value}`]));
  const isFirst = (pair: string) => values["refquota"] !== undefined && pair.startsWith("refreservation=");
  const inherited = Object.keys(values).filter(key => values[key] === undefined);
  const set = (step: string, all: readonly string[]): readonly Step[] =>
    all.length === 0 ? [] : [{ name: step, argv: proved([...zfs, "set", ...all, name]) }];
  return [
    ...inherited.map((key, at): Step => ({ name: `inherit${at}`, argv: [...zfs, "inherit", key, name] })),
    ...set("reserve", pairs.filter(isFirst)),
    ...set(
      "set",
      pairs.filter(each => !isFirst(each)),
    ),
  ];
}

/** Sends a snapshot into a new dataset, or continues an interrupted copy by the token that it left. */
export function copyStep({ zfs }: Programs, { from, to, values }: Copy, token: string | undefined): Step {
  const send: Argv = token === undefined ? [...zfs, "send", from] : [...zfs, "send", "-t", token];
  const fresh = token === undefined ? options(values) : [];
  return { name: "copy", argv: piped(send, [...zfs, "receive", "-u", "-s", ...fresh, to]) };
}

/**
 * The programs that set owner, mode and lists, in the order in which they do not undo each other: chown clears set-id bits, chmod changes
 * masks. The mount point is their last word.
 */
export function permissionCalls({ privileged }: Programs, permissions: Permissions): readonly (readonly string[])[] {
  const { mode, user, group, acls, aclsProgram } = permissions;
  // Without a group no colon: chown(1) would choose the user's own group, and refuses that for a number.
  const owner = group === undefined ? user : `${user ?? ""}:${group}`;
  return [
    ...(owner === undefined ? [] : [["chown", owner]]),
    ...(mode ? [["chmod", mode]] : []),
    ...acls.map(words => [aclsProgram, ...words]),
  ].map(call => [...privileged, ...call]);
}

/**
 * Sets owner, mode and lists. Needs a step "read" of `mountProperties` before it. With `after`, it runs only after the success of that
 * step.
 */
export function permissionSteps(
  programs: Programs,
  name: string,
  permissions: Permissions | undefined,
  after: string | undefined,
): readonly Step[] {
  const calls = permissions ? permissionCalls(programs, permissions) : [];
  if (calls.length === 0) return [];
  const step = onMountpoint("permit", name, calls);
  return [after === undefined ? step : { ...step, onlyAfter: after }];
}
