import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { maxInt64 } from "../../core/bytes.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Mapping } from "../../core/mapping.ts";
import { type CommandRunner, type Output, unlimitedMs } from "../../io/runner.ts";
import {
  type Backup,
  type BackupRequest,
  type BackupTool,
  backupFailure,
  bytesIn,
  fieldsIn,
  foreignMaker,
  momentOf,
  onlyMatch,
  ownOnes,
  rowsOf,
  runTool,
  type ToolSettings,
  textOf,
  wholeList,
} from "./backup-tool.ts";
import type { OperationContext } from "./operation-context.ts";
import { sealed } from "./sealed.ts";
import { whileAnswering } from "./while-answering.ts";

/** `snapshots.kopia`. */
export interface KopiaSettings extends ToolSettings {
  /** The output of `kopia repository status -t`; undefined if the environment names a connected configuration. */
  readonly token: string | undefined;
}

/** The user and host of all snapshots, wherever the controller runs. */
const owner = ["--override-hostname", "csimux", "--override-username", "csimux"] as const;

/**
 * kopia keeps its list of what the repository has for 30 s (internal/listcache/listcache.go): what another controller has made meanwhile would
 * look deleted.
 */
const listedAgain = "--max-list-cache-duration=0s";

const absent = /no snapshots matched|invalid content hash|not found/i;

/** What `kopia snapshot list` says of what it could not read (LoadSnapshots of snapshot/manager.go). */
const unread = /unable to parse snapshot manifest/i;

/**
 * The policy for volumes, on the folder above them. With each new snapshot of a volume, kopia would delete the older ones except some of its hours,
 * days, weeks and months (`defaultKeepLatest` and the others in snapshot/policy/retention_policy.go), and would leave out folders that contain CACHEDIR.TAG
 * and what files called .kopiaignore name. A pod can make such a file a link to one of others, which kopia, as root, resolves and reads
 * (fs/ignorefs/ignorefs.go): what is missing would tell the pod what that contains. A list of one's own replaces the name; no file is called ".".
 * The others are the defaults, which the policy of all folders, often made for personal files, may change: a snapshot would silently lack what
 * cannot be read, large files or subvolumes (snapshot/policy), or not be kept because it equals the last one (cli/command_snapshot_create.go).
 */
const policy = [
  ...["--keep-latest=2147483647", "--ignore-cache-dirs=false", "--add-dot-ignore=."],
  ...["--ignore-file-errors=false", "--ignore-dir-errors=false", "--one-file-system=false"],
  ...[`--max-file-size=${maxInt64}`, "--ignore-identical-snapshots=false"],
] as const;

/**
 * Without it, a file has the content of the last snapshot of its folder if time, size, mode and owner are the same, although programs set times
 * (snapshot/upload/upload.go, metadataEquals); kopia knows neither its inode nor its ctime. What is in the repository is not sent again.
 */
const readEverything = "--force-hash=100";

/** By default a restored file silently keeps the owner and mode of its creation where the server does not let root set them. */
const asSaved = "--no-ignore-permission-errors";

/** Snapshots with kopia(1). Its configuration is in a folder of this process, which is removed at its end. */
export class Kopia implements BackupTool {
  readonly method = "kopia";
  readonly #context: OperationContext;
  readonly #settings: KopiaSettings;
  #folder: Promise<string> | undefined;
  /** The folders that have the policy, which is set once per process. */
  readonly #ruled = new Set<string>();

  constructor(context: OperationContext, settings: KopiaSettings) {
    this.#context = context;
    this.#settings = settings;
  }

  async find(key: string | undefined, call: Call): Promise<readonly Backup[]> {
    const tags = [...this.#ownTags(), ...(key === undefined ? [] : [`csi_snapshot_name:${key}`])];
    return ownOnes(await this.#list(tags, call), key);
  }

  async get(id: string, call: Call): Promise<Backup | undefined> {
    return onlyMatch(this.#context, "kopia", await this.#list([], call), id);
  }

  async take(at: OperationContext, folder: string, { key, volumeId, bytes }: BackupRequest, call: Call): Promise<void> {
    const about = [`csi_volume_id:${volumeId}`, `csi_snapshot_name:${key}`, `csi_bytes:${bytes}`];
    const tags = [...this.#ownTags(), ...about, ...this.#settings.tags.map(asTag)].flatMap(tag => ["--tags", tag]);
    const output = await whileAnswering(at, call, attended =>
      sealed(at, folder, attended, async ({ source, runner }) => {
        await this.#rule(dirname(source), attended);
        const words = ["snapshot", "create", "--json", readEverything, ...tags];
        return await this.#run(words, [source], attended, { runner, timeoutMs: unlimitedMs });
      }),
    );
    if (output.exitCode !== 0) throw this.#failure("read a volume", output);
    const [backup] = rowsOf(this.#context, "kopia", `[${output.stdout}]`).map(row => readBackup(this.#context, row));
    if (!backup?.complete) throw this.#failure("read all of a volume", output);
  }

  async restore(at: OperationContext, id: string, folder: string, call: Call): Promise<string> {
    const words = ["--write-sparse-files", asSaved, id, folder];
    const output = await whileAnswering(at, call, attended =>
      this.#run(["snapshot", "restore"], words, attended, { timeoutMs: unlimitedMs }),
    );
    if (output.exitCode === 0) return folder;
    // kopia says the same of a blob that a damaged repository, or a storage that does not answer in full, lacks (repo/blob/storage.go, ErrBlobNotFound).
    if (!absent.test(output.stderr) || (await this.get(id, call))) throw this.#failure("restore a snapshot", output);
    throw new CsiError("not-found", `connection "${this.#context.connection}": kopia has no snapshot "${id}"`);
  }

  async forget(id: string, call: Call): Promise<void> {
    const output = await this.#run(["snapshot", "delete"], ["--delete", id], call);
    if (output.exitCode !== 0 && !absent.test(output.stderr)) throw this.#failure("delete a snapshot", output);
    if (await this.get(id, call)) throw this.#failure("delete a snapshot", output);
  }

  async close(): Promise<void> {
    const folder = await this.#folder?.catch(() => undefined);
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  }

  /** Sets the policy. kopia runs in the folder, because it takes a path with "@" for a user and a host (ParseSourceInfo). */
  async #rule(folder: string, call: Call): Promise<void> {
    if (this.#ruled.has(folder)) return;
    const output = await this.#run(["policy", "set", ...policy], ["."], call, { folder });
    if (output.exitCode !== 0) throw this.#failure("set its policy for volumes", output);
    this.#ruled.add(folder);
  }

  async #list(tags: readonly string[], call: Call): Promise<readonly Backup[]> {
    const filter = tags.flatMap(tag => ["--tags", tag]);
    const output = await wholeList(
      () => this.#run(["snapshot", "list", "--json", "--all"], filter, call),
      unread,
      incomplete => this.#failure("read all snapshots", incomplete),
    );
    if (output.exitCode !== 0) throw this.#failure("list snapshots", output);
    return rowsOf(this.#context, "kopia", output.stdout).map(row => readBackup(this.#context, row));
  }

  #ownTags(): readonly string[] {
    return ["source:csimux", `csi_connection:${this.#context.connection}`];
  }

  async #run(
    command: readonly string[],
    words: readonly string[],
    call: Call,
    {
      folder,
      ...more
    }: { readonly runner?: CommandRunner; readonly timeoutMs?: number; readonly folder?: string } = {},
  ): Promise<Output> {
    const env = await this.#connected(call);
    const kopia = folder === undefined ? (["kopia"] as const) : (["env", "-C", folder, "kopia"] as const);
    const argv = [...kopia, ...command, ...this.#settings.flags, ...words] as const;
    return await runTool(this.#context, env, argv, call, { timeoutMs: 90_000, ...more });
  }

  /** The environment of a kopia connected to its repository; connects once per process. */
  async #connected(call: Call): Promise<Readonly<Record<string, string>>> {
    const { token, env } = this.#settings;
    if (token === undefined) return env;
    this.#folder ??= this.#connect(token, call).catch((error: unknown) => {
      this.#folder = undefined;
      throw error;
    });
    return this.#environment(await this.#folder);
  }

  /** The token contains the credentials of the repository, so it is passed through stdin. */
  async #connect(token: string, call: Call): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), "csimux-kopia-"));
    const argv = ["kopia", "repository", "connect", ...owner, listedAgain, "from-config", "--token-stdin"] as const;
    try {
      const more = { stdin: token, timeoutMs: 90_000 };
      const output = await runTool(this.#context, this.#environment(folder), argv, call, more);
      if (output.exitCode !== 0) throw this.#failure("connect to the repository", output);
      return folder;
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  #environment(folder: string): Readonly<Record<string, string>> {
    const places = {
      KOPIA_CONFIG_PATH: join(folder, "repository.config"),
      KOPIA_CACHE_DIRECTORY: join(folder, "cache"),
      KOPIA_LOG_DIR: join(folder, "log"),
      KOPIA_CHECK_FOR_UPDATES: "false",
    };
    return { ...places, ...this.#settings.env };
  }

  #failure(doing: string, output: Output): CsiError {
    return backupFailure(this.#context, "kopia", doing, output);
  }
}

/** Tags of kopia have a name and a value. */
const asTag = (tag: string): string => (tag.includes(":") ? tag : `${tag}:true`);

function readBackup(context: OperationContext, fields: Mapping): Backup {
  const mapping = (value: unknown): Mapping => fieldsIn([value])[0] ?? {};
  const tags = mapping(fields["tags"]);
  const valued = (name: string) => textOf(tags[`tag:${name}`] ?? tags[name]);
  const source = valued("source");
  const isOwn = source === "csimux";
  const failed = mapping(mapping(fields["rootEntry"])["summ"])["numFailed"];
  const path = textOf(mapping(fields["source"])["path"]);
  return {
    id: textOf(fields["id"]),
    key: isOwn ? valued("csi_snapshot_name") : "",
    volumeId: isOwn ? valued("csi_volume_id") : basename(path),
    bytes: bytesIn(valued("csi_bytes")),
    created: momentOf(fields["startTime"]),
    complete: textOf(fields["incomplete"]) === "" && (failed === undefined || failed === 0),
    foreign: foreignMaker(context, {
      source,
      connection: valued("csi_connection"),
      instance: valued("csi_instance_id") || undefined,
    }),
  };
}
