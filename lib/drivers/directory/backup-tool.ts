import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { type Argv, CommandError, type CommandRunner, type Output } from "../../io/runner.ts";
import type { OperationContext } from "./operation-context.ts";

/** The programs that keep snapshots in a repository of their own; values of `snapshots.default_driver`. */
export type BackupMethod = "restic" | "kopia";

/** A snapshot in a repository. */
export interface Backup {
  /** As the repository calls it: hexadecimal digits. */
  readonly id: string;
  /** The key of its name; empty for one that csimux did not make. */
  readonly key: string;
  readonly volumeId: string;
  /** The size in bytes that its volume had been asked for; 0 when unknown. */
  readonly bytes: bigint;
  readonly created: Date;
  /** Everything that was to be read is in it. What an interrupted call left is not. */
  readonly complete: boolean;
  /** Who made it, for messages, where that was somebody else than this connection or the democratic-csi before it; else undefined. */
  readonly foreign: string | undefined;
}

/** The tags of a backup that tell who made it. */
export interface MakerTags {
  readonly source: string | undefined;
  readonly connection: string | undefined;
  /** `instance_id` of democratic-csi. */
  readonly instance: string | undefined;
}

/** As Backup.foreign. A democratic-csi without `instance_id` tags nothing that tells it from another one. */
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

/** What a new backup is to say of itself. */
export interface BackupRequest {
  readonly key: string;
  readonly volumeId: string;
  readonly bytes: bigint;
}

/** A program that keeps folders in a repository. All methods throw CsiError, "failed-precondition" without the program. */
export interface BackupTool {
  readonly method: BackupMethod;
  /** The backups of this connection, incomplete ones included, in no particular order; those of one key where it is given. */
  find(key: string | undefined, call: Call): Promise<readonly Backup[]>;
  /** Also one that somebody else made. `id` may be the beginning of an id; throws "failed-precondition" when several begin so. */
  get(id: string, call: Call): Promise<Backup | undefined>;
  /** Reads the folder of a volume on the base folder of `at`, which a pod may change meanwhile, into a new backup that is complete. */
  take(at: OperationContext, folder: string, wanted: BackupRequest, call: Call): Promise<void>;
  /** Writes a backup into an empty folder. Answers the path at which the volume's folder is then: that folder, or one in it. */
  restore(at: OperationContext, id: string, folder: string, call: Call): Promise<string>;
  /** Removes the backup with this whole id. Success when there is none; throws "unavailable" unless the repository shows that it is gone. */
  forget(id: string, call: Call): Promise<void>;
  /** Gives up what the program needed on this machine. */
  close(): Promise<void>;
}

/** How a tool is called; the settings of its section. */
export interface ToolSettings {
  readonly flags: readonly string[];
  readonly tags: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** As long as a timer can be: a large tree takes its time, and a base folder that does not answer ends the work, see inPlace(). */
export const unlimitedMs = 2_147_483_647;

/** A repository may hold very many snapshots. */
const maxBytes = 64 << 20;

/** Values of the environment that are too short to be secrets would make everything unreadable. */
const secretsOf = (env: Readonly<Record<string, string>>): readonly string[] =>
  Object.values(env).filter(value => value.length >= 6);

/** Runs a tool with its environment, which no command line shows. Throws "failed-precondition" where it is not installed. */
export async function runTool(
  space: OperationContext,
  env: Readonly<Record<string, string>>,
  argv: Argv,
  call: Call,
  more: { readonly runner?: CommandRunner; readonly timeoutMs?: number; readonly stdin?: string } = {},
): Promise<Output> {
  const { runner = space.runner, ...rest } = more;
  const tool = argv[0] === "env" ? (argv[3] ?? "") : argv[0];
  try {
    const output = await runner.run({ argv, env, secret: secretsOf(env), maxBytes, ...rest }, call.signal);
    // env(1): 127 when there is no such program.
    if (argv[0] !== "env" || output.exitCode !== 127) return output;
  } catch (error) {
    if (!(error instanceof CommandError) || error.failure !== "missing") throw error;
  }
  throw new CsiError(
    "failed-precondition",
    `connection "${space.connection}": ${tool} is not installed; install it where csimux runs`,
  );
}

/** What tools say, and what it means. The rest of their words may hold names of files and addresses: they are for the log. */
const meanings: readonly (readonly [RegExp, CsiError["code"], string])[] = [
  [/wrong password|no key found|invalid repository password/i, "failed-precondition", "its password is wrong"],
  [/already locked|unable to create lock|lock repository/i, "unavailable", "it is locked; it will be tried again"],
  [/no space left on device|quota exceeded/i, "resource-exhausted", "no space is left"],
  [
    /config or key .* is damaged/i,
    "failed-precondition",
    "its configuration and its key do not fit, as when two programs make it at once; where it holds no backups yet, remove it and run `restic init`",
  ],
  [/repository is not connected|unable to open config file/i, "failed-precondition", "there is no repository"],
  [/invalid token|unable to parse token/i, "failed-precondition", "config_token cannot be read"],
];

/** The error for a tool that ended badly. */
export function backupFailure(
  space: OperationContext,
  tool: string,
  doing: string,
  { exitCode, stderr, stdout }: Output,
): CsiError {
  const known = meanings.find(([words]) => words.test(stderr));
  const [, code = "unavailable", text = "see the log"] = known ?? [];
  const cause = new Error((stderr.trim() || stdout.trim()).slice(-500) || "no message");
  const what = `cannot ${doing}: ${tool} ended with ${exitCode}: ${text}`;
  return new CsiError(code, `connection "${space.connection}": ${what}`, { cause });
}

/** Those that this connection made, of one key where it is given: what a tool filters is not left to it alone. */
export const ownOnes = <B extends Backup>(all: readonly B[], key: string | undefined): readonly B[] =>
  all.filter(backup => backup.foreign === undefined && backup.key !== "" && (key ?? backup.key) === backup.key);

/** The backup whose id begins with `id`, if any. Throws "failed-precondition" when several do: any of them may be meant. */
export function onlyMatch<B extends Backup>(
  space: OperationContext,
  tool: string,
  all: readonly B[],
  id: string,
): B | undefined {
  const [first, ...more] = all.filter(backup => backup.id.startsWith(id));
  if (more.length > 0) throw ambiguous(space, tool, id);
  return first;
}

/** The error for the beginning of an id that fits several backups. */
export function ambiguous({ connection }: OperationContext, tool: string, id: string): CsiError {
  const text = `several snapshots of ${tool} have ids that begin with "${id}"; use the whole id`;
  return new CsiError("failed-precondition", `connection "${connection}": ${text}`);
}

/** The mappings in a list that a tool printed as JSON; restic before 0.10 prints an empty one as `null`. Throws "unavailable" for anything else. */
export function rowsOf(space: OperationContext, tool: string, text: string): readonly JsonObject[] {
  const value = parsedOutput(space, tool, text) ?? [];
  const rows = fieldsIn(value);
  if (Array.isArray(value) && rows.length === value.length && rows.every(({ id }) => isBackupId(id))) return rows;
  throw unreadable(space, tool);
}

/** JSON of a tool. Throws "unavailable" for anything else, nothing at all included: an empty list is written as one. */
export function parsedOutput(space: OperationContext, tool: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw unreadable(space, tool, cause);
  }
}

const unreadable = ({ connection }: OperationContext, tool: string, cause?: unknown): CsiError =>
  new CsiError("unavailable", `connection "${connection}": the answer of ${tool} is unreadable`, { cause });

export type JsonObject = Readonly<Record<string, unknown>>;

const isBackupId = (id: unknown): boolean => typeof id === "string" && /^[0-9a-f]{32,64}$/.test(id);

/** The mappings in a list; none when it is no list. */
export const fieldsIn = (value: unknown): readonly JsonObject[] =>
  Array.isArray(value) ? value.filter((each): each is JsonObject => typeof each === "object" && each !== null) : [];

export const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** A moment as tools write it; the beginning of 1970 for anything else. */
export function momentOf(value: unknown): Date {
  const parsed = new Date(textOf(value));
  return Number.isNaN(parsed.getTime()) ? new Date(0) : parsed;
}

/** A size that csimux noted; 0 for anything else. */
export const bytesIn = (text: string | undefined): bigint =>
  text !== undefined && /^\d{1,19}$/.test(text) ? BigInt(text) : 0n;
