import { basename } from "node:path";
import type { CsiError } from "../../../core/errors.ts";
import { isMapping, type Mapping } from "../../../core/mapping.ts";
import type { Output } from "../../../io/runner.ts";
import { errorOn, type OperationContext } from "../operation-context.ts";
import { date, size } from "../records.ts";

/** The programs that keep snapshots in a repository of their own; values of `snapshots.default_driver`. */
export type BackupMethod = "restic" | "kopia";

/** The settings common to all tools. */
export interface ToolSettings {
  readonly flags: readonly string[];
  readonly tags: readonly string[];
  readonly env: Environment;
}

export type Environment = Readonly<Record<string, string>>;

type Words = readonly string[];

/** What one tool says in its own way. Words are those of a command line, without its name and `ToolSettings.flags`. */
export interface BackupTool {
  readonly method: BackupMethod;
  /** How many of the first words name the command; the flags follow them. */
  readonly commandWords: number;
  /** How many changes of a repository the tool can make at once. */
  readonly changesAtOnce: number;
  /** Between the name and the value of a tag. */
  readonly joint: string;
  /** A tag of the connection file as the tool takes it. */
  tag(text: string): string;

  /** How csimux connects to the repository. `folder` is that of this process, and is removed at its end. */
  readonly session?: {
    readonly words: Words;
    readonly stdin: string;
    env(folder: string): Environment;
  };
  /** How the tool finds its repository and makes one. Without it, a person makes the repository. */
  readonly creation?: {
    readonly look: Words;
    readonly make: Words;
    /** What `make` says of a repository that another process has made meanwhile. */
    readonly made: RegExp;
    /** Equal texts mean the same repository. */
    readonly place: string;
  };
  /** Whether a command did nothing because of the locks of others, and how to remove those of ended processes. */
  readonly lock?: { isHeld(output: Output): boolean; readonly release: Words };

  /** Lists the backups with all these tags. */
  list(tags: readonly string[]): Words;
  /** Lists at least the backups whose ids begin with `id`. */
  one(id: string): Words;
  /** What a list says of backups that it could not read, or left out. It exits with 0 nevertheless. */
  readonly unread: RegExp;
  /** What a failed list of one id says if there is none. */
  readonly none?: RegExp;
  row(fields: Mapping): BackupRow;

  /** Sets in the folder of the volumes what holds for them. */
  readonly policy?: Words;
  /** Reads `source`, from its parent folder. `local`: it is on a local file system. */
  take(source: string, tags: readonly string[], local: boolean): Words;
  /** The id of the new backup; undefined unless it has all of the volume. */
  taken(context: OperationContext, output: Output): string | undefined;
  /** Marks a backup as complete, which it would not be otherwise. */
  mark?(id: string): Words;
  restore(id: string, folder: string): Words;
  forget(id: string): Words;
  /** The time limit of `forget`, in milliseconds. */
  readonly forgetMs: number;
  /** What a failed `forget` says if there is no such backup. */
  readonly gone?: RegExp;
}

/** A backup as a tool lists it. */
export interface BackupRow {
  /** The folder that was read. */
  readonly path: string;
  /** In the form of the tool. */
  readonly time: unknown;
  /** The value of a tag. */
  tag(name: string): string | undefined;
  /** `instance_id` of democratic-csi. */
  readonly instance: string | undefined;
  readonly complete: boolean;
  /** Where `restore` puts the folder of the volume, below its target; undefined if it cannot. */
  readonly within: string | undefined;
}

/** A snapshot in a repository. */
export interface Backup extends Pick<BackupRow, "within"> {
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

/** As Backup.foreign. Backups of democratic-csi without `instance_id` have no tag that identifies the instance. */
function foreignMaker({ connection, instanceId }: OperationContext, { tag, instance }: BackupRow): string | undefined {
  const [source, other = ""] = [tag("source"), tag("csi_connection")];
  if (source === "csimux") return other === connection ? undefined : `connection "${other.slice(0, 63)}"`;
  if (source !== "democratic-csi") return "another program";
  if (instance === undefined || instance === (instanceId ?? "")) return undefined;
  return `democratic-csi with instance_id "${instance.slice(0, 63)}"`;
}

/** The backups in a list of a tool. Throws "unavailable" for anything but a list of them, including an empty output. */
export function backupsIn(context: OperationContext, tool: BackupTool, text: string): readonly Backup[] {
  return rowsOf(context, tool.method, text).map(fields => {
    const row = tool.row(fields);
    const own = row.tag("source") === "csimux" ? row.tag : undefined;
    return {
      id: textOf(fields["id"]),
      key: own?.("csi_snapshot_name") ?? "",
      volumeId: own ? (own("csi_volume_id") ?? "") : basename(row.path),
      bytes: size(row.tag("csi_bytes")) ?? 0n,
      created: date(row.time) ?? new Date(0),
      complete: row.complete,
      within: row.within,
      foreign: foreignMaker(context, row),
    };
  });
}

/** The mappings in a list in JSON. restic before 0.10 prints an empty one as `null`. Throws like backupsIn. */
function rowsOf(context: OperationContext, method: BackupMethod, text: string): readonly Mapping[] {
  try {
    const value: unknown = JSON.parse(text) ?? [];
    const rows = listIn(value).filter(isMapping);
    const isWhole = Array.isArray(value) && rows.length === value.length;
    if (isWhole && rows.every(({ id }) => /^[0-9a-f]{32,64}$/.test(textOf(id)))) return rows;
    throw new Error("it is not a list of snapshots");
  } catch (cause) {
    throw errorOn(context, "unavailable", `the answer of ${method} is unreadable`, { cause });
  }
}

export const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** A list; an empty one for anything else. */
export const listIn = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

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
  [/^Ignoring "[^"]*": multiple IDs/m, "failed-precondition", "several ids begin with this one; use the complete id"],
  [/invalid token|unable to parse token/i, "failed-precondition", "config_token cannot be read"],
];

/** The error for a tool that failed. */
export function backupFailure(
  context: OperationContext,
  method: BackupMethod,
  doing: string,
  { exitCode, stderr, stdout }: Output,
): CsiError {
  const known = meanings.find(([words]) => words.test(stderr));
  const [, code = "unavailable", text = "see the log"] = known ?? [];
  const cause = new Error((stderr.trim() || stdout.trim()).slice(-500) || "no message");
  const what = `cannot ${doing}: ${method} ended with ${exitCode}: ${text}`;
  return errorOn(context, code, what, { cause });
}
