import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { isMapping, type Mapping } from "../../core/mapping.ts";
import { omittedLine } from "../../io/capture.ts";
import { type Argv, type CommandRunner, ignoreMissing, notFoundExit, type Output } from "../../io/runner.ts";
import type { OperationContext } from "./operation-context.ts";

/** The programs that keep snapshots in a repository of their own; values of `snapshots.default_driver`. */
export type BackupMethod = "restic" | "kopia";

/** A snapshot in a repository. */
export interface Backup {
  /** Its id in the repository: hexadecimal digits. */
  readonly id: string;
  /** The key of its name; empty if csimux did not make it. */
  readonly key: string;
  readonly volumeId: string;
  /** The requested size of its volume in bytes; 0 if unknown. */
  readonly bytes: bigint;
  readonly created: Date;
  /** False for what an interrupted call left. */
  readonly complete: boolean;
  /** Its maker, for messages; undefined if that is this connection or the democratic-csi before it. */
  readonly foreign: string | undefined;
}

/** The tags of a backup that identify its maker. */
export interface MakerTags {
  readonly source: string | undefined;
  readonly connection: string | undefined;
  /** `instance_id` of democratic-csi. */
  readonly instance: string | undefined;
}

/** As Backup.foreign. Backups of democratic-csi without `instance_id` have no tag that identifies the instance. */
export function foreignMaker(
  { connection, instanceId }: Pick<OperationContext, "connection" | "instanceId">,
  tags: MakerTags,
): string | undefined {
  if (tags.source === "csimux")
    return tags.connection === connection ? undefined : `connection "${(tags.connection ?? "").slice(0, 63)}"`;
  if (tags.source !== "democratic-csi") return "another program";
  if (tags.instance === undefined || tags.instance === (instanceId ?? "")) return undefined;
  return `democratic-csi with instance_id "${tags.instance.slice(0, 63)}"`;
}

/** The data of a new backup. */
export interface BackupRequest {
  readonly key: string;
  readonly volumeId: string;
  readonly bytes: bigint;
}

/** A program that keeps folders in a repository. All methods throw CsiError, "failed-precondition" without the program. */
export interface BackupTool {
  readonly method: BackupMethod;
  /** The backups of this connection, including incomplete ones, in no particular order; only those of `key`, if given. */
  find(key: string | undefined, call: Call): Promise<readonly Backup[]>;
  /** Also finds foreign backups. `id` may be the beginning of an id; throws "failed-precondition" if it is ambiguous. */
  get(id: string, call: Call): Promise<Backup | undefined>;
  /** Makes a complete backup of the folder of a volume below the base folder of `at`, which pods may change meanwhile. */
  take(at: OperationContext, folder: string, wanted: BackupRequest, call: Call): Promise<void>;
  /** Writes a backup into an empty folder. Returns the path of the volume's folder: that folder, or one in it. */
  restore(at: OperationContext, id: string, folder: string, call: Call): Promise<string>;
  /** Removes the backup with this complete id. Succeeds if there is none; throws "unavailable" unless the repository shows that it is gone. */
  forget(id: string, call: Call): Promise<void>;
  /** Releases the resources of the program on this machine. */
  close(): Promise<void>;
}

/** The settings common to all tools. */
export interface ToolSettings {
  readonly flags: readonly string[];
  readonly tags: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** A repository may hold very many snapshots. */
const maxBytes = 64 << 20;

/** Short values are not masked: they would match ordinary text. */
const secretsOf = (env: Readonly<Record<string, string>>): readonly string[] =>
  Object.values(env).filter(value => value.length >= 6);

/** Runs a tool with its variables in its environment, not in a command line. Throws "failed-precondition" if it is not installed. */
export async function runTool(
  context: OperationContext,
  env: Readonly<Record<string, string>>,
  argv: Argv,
  call: Call,
  more: { readonly runner?: CommandRunner; readonly timeoutMs?: number; readonly stdin?: string } = {},
): Promise<Output> {
  const { runner = context.runner, ...rest } = more;
  const tool = argv[0] === "env" ? (argv[3] ?? "") : argv[0];
  try {
    const output = await runner.run({ argv, env, secret: secretsOf(env), maxBytes, ...rest }, call.signal);
    if (argv[0] !== "env" || output.exitCode !== notFoundExit) return output;
  } catch (error) {
    ignoreMissing(error);
  }
  const text = `connection "${context.connection}": ${tool} is not installed; install it where csimux runs`;
  throw new CsiError("failed-precondition", text);
}

/**
 * What restic says where there is no repository. Before 0.17 these are the messages of the object store, and the sentences around them are the same
 * for any other failure, up to 0.18 (cmd/restic/global.go, open): a repository whose storage does not answer is not missing.
 */
export const noRepository =
  /repository does not exist|unable to open config file: [\s\S]*(?:does(?:n't| not) exist|no such file|not ?found)[\s\S]*\nIs there a repository/i;

/** Error texts of the tools, and their meaning. The complete texts may contain names of files and addresses, so only the log gets them. */
const meanings: readonly (readonly [RegExp, CsiError["code"], string])[] = [
  [/wrong password|no key found|invalid repository password/i, "failed-precondition", "its password is wrong"],
  [/already locked|unable to create lock|lock repository/i, "unavailable", "it is locked; retrying"],
  [/no space left on device|quota exceeded/i, "resource-exhausted", "no space is left"],
  [
    /could not change (?:owner|permissions|mod time)/i,
    "failed-precondition",
    "the storage does not let root of the machine of csimux set owners and modes (NFS: no_root_squash)",
  ],
  [
    /config or key .* is damaged/i,
    "failed-precondition",
    "its configuration does not match its key, as after two concurrent creations; if it has no backups yet, remove it and run `restic init`",
  ],
  [/repository is not connected/i, "failed-precondition", "there is no repository"],
  [noRepository, "failed-precondition", "there is no repository"],
  [/invalid token|unable to parse token/i, "failed-precondition", "config_token cannot be read"],
];

/** The error for a tool that failed. */
export function backupFailure(
  context: OperationContext,
  tool: string,
  doing: string,
  { exitCode, stderr, stdout }: Output,
): CsiError {
  const known = meanings.find(([words]) => words.test(stderr));
  const [, code = "unavailable", text = "see the log"] = known ?? [];
  const cause = new Error((stderr.trim() || stdout.trim()).slice(-500) || "no message");
  const what = `cannot ${doing}: ${tool} ended with ${exitCode}: ${text}`;
  return new CsiError(code, `connection "${context.connection}": ${what}`, { cause });
}

/** How often a list is asked for that lacks something: what another process has just removed is not missing the second time. */
const listings = 2;

/**
 * The output of a tool's list, complete or failed. The tools omit what they cannot read, up to all of it if the storage does not answer, and
 * exit with 0; `unread` matches what they say then. An omitted backup must not count as deleted: throws what `refused` returns for such a list.
 */
export async function wholeList(
  list: () => Promise<Output>,
  unread: RegExp,
  refused: (output: Output) => CsiError,
): Promise<Output> {
  for (let left = listings; ; left--) {
    const output = await list();
    if (output.exitCode !== 0 || !(unread.test(output.stderr) || omittedLine.test(output.stderr))) return output;
    if (left === 1) throw refused(output);
  }
}

/** The backups made by this connection, only those of `key` if given; the filter of a tool alone is not trusted. */
export const ownOnes = <B extends Backup>(all: readonly B[], key: string | undefined): readonly B[] =>
  all.filter(backup => backup.foreign === undefined && backup.key !== "" && (key ?? backup.key) === backup.key);

/** The backup with an id that begins with `id`, if any. Throws "failed-precondition" if there are several. */
export function onlyMatch<B extends Backup>(
  context: OperationContext,
  tool: string,
  all: readonly B[],
  id: string,
): B | undefined {
  const [first, ...more] = all.filter(backup => backup.id.startsWith(id));
  if (more.length > 0) throw ambiguous(context, tool, id);
  return first;
}

/** The error for an ambiguous beginning of an id. */
export function ambiguous({ connection }: OperationContext, tool: string, id: string): CsiError {
  const text = `several snapshots of ${tool} have ids that begin with "${id}"; use the complete id`;
  return new CsiError("failed-precondition", `connection "${connection}": ${text}`);
}

/** The mappings in a JSON list of a tool; restic before 0.10 prints an empty one as `null`. Throws "unavailable" for anything else. */
export function rowsOf(context: OperationContext, tool: string, text: string): readonly Mapping[] {
  const value = parsedOutput(context, tool, text) ?? [];
  const rows = fieldsIn(value);
  if (Array.isArray(value) && rows.length === value.length && rows.every(({ id }) => isBackupId(id))) return rows;
  throw unreadable(context, tool);
}

/** Parses the JSON of a tool. Throws "unavailable" for anything else, including an empty output. */
function parsedOutput(context: OperationContext, tool: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw unreadable(context, tool, cause);
  }
}

const unreadable = ({ connection }: OperationContext, tool: string, cause?: unknown): CsiError =>
  new CsiError("unavailable", `connection "${connection}": the answer of ${tool} is unreadable`, { cause });

const isBackupId = (id: unknown): boolean => typeof id === "string" && /^[0-9a-f]{32,64}$/.test(id);

/** The mappings in a list; none if it is not a list. */
export const fieldsIn = (value: unknown): readonly Mapping[] => (Array.isArray(value) ? value.filter(isMapping) : []);

export const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** A time in the form of the tools; the beginning of 1970 for anything else. */
export function momentOf(value: unknown): Date {
  const parsed = new Date(textOf(value));
  return Number.isNaN(parsed.getTime()) ? new Date(0) : parsed;
}

/** A size recorded by csimux; 0 for anything else. */
export const bytesIn = (text: string | undefined): bigint =>
  text !== undefined && /^\d{1,19}$/.test(text) ? BigInt(text) : 0n;
