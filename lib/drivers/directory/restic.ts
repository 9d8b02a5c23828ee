import { basename, dirname, join, normalize } from "node:path";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Mapping } from "../../core/mapping.ts";
import { Semaphore, semaphores } from "../../core/semaphore.ts";
import { pause } from "../../core/time.ts";
import { omittedLine } from "../../io/capture.ts";
import { type CommandRunner, type Output, unlimitedMs } from "../../io/runner.ts";
import {
  ambiguous,
  type Backup,
  type BackupRequest,
  type BackupTool,
  backupFailure,
  bytesIn,
  foreignMaker,
  momentOf,
  noRepository,
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

/** `snapshots.restic`. */
export interface ResticSettings extends ToolSettings {
  /** Free the space of a deleted backup immediately. */
  readonly prune: boolean;
}

/** The host of all backups, wherever the controller runs. */
const host = "csimux";

/**
 * Without it, a file has the content of the last backup of its folder if size, times and inode are the same (internal/archiver/archiver.go,
 * fileChanged). They do not change with each write through a mapping, only with the first one after its page was written back (mmap(2), MAP_SHARED),
 * and a client of NFS answers from its cache what they were up to a minute ago (nfs(5), "acregmax"). What is in the repository is not sent again.
 */
const readEverything = "--force";

/** The tag of a complete backup. One without it was left by an interrupted call. */
const completeTag = "csi_complete";

/** The number of digits of an id. */
const completeDigits = 64;

/** The exit code of `restic backup` if some files could not be read (restic, "Exit status codes"). */
const someUnread = 3;

/** The pause before a locked repository is tried again, in milliseconds. */
const againMs = 1_000;

const isLocked = /already locked|unable to create lock/;

/** What `restic snapshots` says of what it could not read (FindFilteredSnapshots of cmd/restic/find.go); of an id that does not exist, it says something else. */
const unread = /^(?:Ignoring "[^"]*"(?!: (?:no matching|multiple) IDs? )|could not load snapshot)/m;

/**
 * Serializes the creation of repositories for all connections of this process. Two concurrent `restic init` would both find
 * nothing and write a key and a configuration each: the repository may then be unusable for good.
 */
const creations = semaphores(1);

interface Read extends Backup {
  readonly paths: readonly string[];
  readonly isOwn: boolean;
}

/** Snapshots with restic(1), 0.14 and newer. */
export class Restic implements BackupTool {
  readonly method = "restic";
  readonly #context: OperationContext;
  readonly #settings: ResticSettings;
  /** Serializes changes of the repository: tagging and forgetting need an exclusive lock. */
  readonly #turns = new Semaphore(1);
  #isThere = false;

  constructor(context: OperationContext, settings: ResticSettings) {
    this.#context = context;
    this.#settings = settings;
  }

  /** No backup of any name where there is no repository yet. */
  async find(key: string | undefined, call: Call): Promise<readonly Backup[]> {
    if (key === undefined && (await this.#missing(call))) return [];
    await this.#made(call);
    const tags = [...this.#ownTags(), ...(key === undefined ? [] : [nameTag(key)])];
    return ownOnes(await this.#list(["--tag", tags.join(",")], call), key);
  }

  async get(id: string, call: Call): Promise<Backup | undefined> {
    return await this.#read(id, call);
  }

  async take(at: OperationContext, folder: string, { key, volumeId, bytes }: BackupRequest, call: Call): Promise<void> {
    const about = [...this.#ownTags(), `csi_volume_id=${volumeId}`, nameTag(key), `csi_bytes=${bytes}`];
    const tags = [...about, ...this.#settings.tags].flatMap(tag => ["--tag", tag]);
    await this.#turns.run(async () => {
      const id = await whileAnswering(at, call, attended =>
        sealed(at, folder, attended, ({ source, runner }) => this.#backup(source, tags, runner, attended)),
      );
      const marked = await this.#unlocked(() => this.#run("tag", ["--add", completeTag, id], call, unlimitedMs), call);
      if (marked.exitCode !== 0) throw this.#failure("mark a snapshot as complete", marked);
    }, call.signal);
  }

  async restore(at: OperationContext, id: string, folder: string, call: Call): Promise<string> {
    const backup = await this.#read(id, call);
    const path = normalize(backup?.paths[0] ?? "");
    if (!backup || !path.startsWith("/") || path === "/") throw this.#gone(id);
    const words = [backup.id, "--target", folder];
    const output = await whileAnswering(at, call, attended => this.#run("restore", words, attended, unlimitedMs));
    if (output.exitCode !== 0) throw this.#failure("restore a snapshot", output);
    return join(folder, backup.isOwn ? basename(path) : path);
  }

  async forget(id: string, call: Call): Promise<void> {
    const words = [...(this.#settings.prune ? ["--prune"] : []), searched(id)];
    const forget = () => this.#run("forget", words, call, unlimitedMs);
    const output = await this.#turns.run(() => this.#unlocked(forget, call), call.signal);
    if (output.exitCode !== 0) throw this.#failure("forget a snapshot", output);
    // Before 0.17 restic exits with 0 even if the storage refused the removal (an append-only server, a locked object).
    if (await this.#read(id, call)) throw this.#failure("forget a snapshot", output);
  }

  async close(): Promise<void> {}

  /** Runs in the parent folder, so that the permissions and owner of the volume's root are part of the backup. */
  async #backup(source: string, tags: readonly string[], runner: CommandRunner, call: Call): Promise<string> {
    const { env, flags } = this.#settings;
    // Nothing is mounted in a sealed tree, but a subvolume of btrfs has another device number, too. A network mount may mount folders by itself.
    const within = this.#context.local ? [] : ["--one-file-system"];
    const words = [
      "backup",
      "--json",
      readEverything,
      ...flags,
      "--host",
      host,
      ...within,
      ...tags,
      "--",
      basename(source),
    ];
    const argv = ["env", "-C", dirname(source), "restic", ...words] as const;
    const backup = () => runTool(this.#context, env, argv, call, { runner, timeoutMs: unlimitedMs });
    const output = await this.#unlocked(backup, call);
    const id = idIn(output.stdout);
    if (output.exitCode === someUnread && id && onlyVanished(output.stderr)) return id;
    if (output.exitCode === 0 && id) return id;
    throw this.#failure("read a volume", output);
  }

  /**
   * What restic says of a repository that does not exist; undefined for one that does, which is found once per process. One that does not
   * answer is not missing.
   */
  async #missing(call: Call): Promise<Output | undefined> {
    if (this.#isThere) return undefined;
    const seen = await this.#run("cat", ["--no-lock", "config"], call);
    this.#isThere = seen.exitCode === 0;
    if (this.#isThere || noRepository.test(seen.stderr)) return this.#isThere ? undefined : seen;
    throw this.#failure("open the repository", seen);
  }

  /** Creates a missing repository. Only for a new backup: in a new repository, every earlier backup would look deleted. */
  async #made(call: Call): Promise<void> {
    if (!(await this.#missing(call))) return;
    const made = await creations(this.#place()).run(
      async () => ((await this.#missing(call)) ? await this.#run("init", [], call) : undefined),
      call.signal,
    );
    if (!made || made.exitCode === 0 || /already (exists|initialized)/.test(made.stderr)) return;
    throw this.#failure("create the repository", made);
  }

  /** Equal texts mean the same repository. */
  #place(): string {
    const { env, flags } = this.#settings;
    return JSON.stringify([env["RESTIC_REPOSITORY"], env["RESTIC_REPOSITORY_FILE"], flags]);
  }

  /** Throws "failed-precondition" without a repository, whose storage may only not be mounted. */
  async #read(id: string, call: Call): Promise<Read | undefined> {
    const missing = await this.#missing(call);
    if (missing) throw this.#failure("open the repository", missing);
    const found = await this.#list([searched(id)], call);
    return onlyMatch(this.#context, "restic", found, id);
  }

  async #list(filter: readonly string[], call: Call): Promise<readonly Read[]> {
    const output = await wholeList(
      () => this.#run("snapshots", ["--json", "--no-lock", ...filter], call),
      unread,
      incomplete => this.#failure("read all snapshots", incomplete),
    );
    if (output.exitCode !== 0 && /no matching ID/.test(output.stderr)) return [];
    if (output.exitCode !== 0) throw this.#failure("list snapshots", output);
    // restic only warns about an ambiguous id and prints an empty list.
    if (/multiple IDs/i.test(output.stderr)) throw ambiguous(this.#context, "restic", filter[0] ?? "");
    return rowsOf(this.#context, "restic", output.stdout).map(row => readBackup(this.#context, row));
  }

  #ownTags(): readonly string[] {
    return ["source=csimux", `csi_connection=${this.#context.connection}`];
  }

  /**
   * Runs a command, which does nothing while other users have the lock that it needs, again while the call lasts. `unlock` removes the
   * locks of processes that have ended on a host of this name, and those that are half an hour old (restic, internal/restic/lock.go, Stale).
   */
  async #unlocked(run: () => Promise<Output>, call: Call): Promise<Output> {
    for (;;) {
      const output = await run();
      // A backup that missed files prints their names, which pods choose.
      const isDone = output.exitCode === 0 || output.exitCode === someUnread;
      if (isDone || !isLocked.test(output.stderr) || call.signal.aborted) return output;
      await this.#run("unlock", [], call);
      await pause(againMs, call.signal).catch(() => {});
    }
  }

  #run(command: string, words: readonly string[], call: Call, timeoutMs = 90_000): Promise<Output> {
    const { env, flags } = this.#settings;
    return runTool(this.#context, env, ["restic", command, ...flags, ...words], call, { timeoutMs });
  }

  #failure(doing: string, output: Output): CsiError {
    return backupFailure(this.#context, "restic", doing, output);
  }

  #gone(id: string): CsiError {
    return new CsiError("not-found", `connection "${this.#context.connection}": restic has no snapshot "${id}"`);
  }
}

/**
 * An id as restic looks for it: without its last digit if it is complete. From 0.15 on restic does not look for a complete one, and says of
 * one that does not exist what it says of one that it cannot read (internal/restic/snapshot_find.go, FindSnapshot).
 */
const searched = (id: string): string => id.slice(0, completeDigits - 1);

const nameTag = (key: string): string => `csi_snapshot_name=${key}`;

function idIn(stdout: string): string | undefined {
  return /"snapshot_id":"([0-9a-f]{8,64})"/.exec(stdout.trim().split("\n").at(-1) ?? "")?.[1];
}

/** The last line of a backup that exits with `someUnread`, which proves that no error is missing (restic, ErrInvalidSourceData). */
const lastWarning = /^.*at least one source file could not be read.*\n$/;

/**
 * Whether restic missed only files that vanished while it read a volume in use (ENOENT). Truncated output may hide other
 * errors.
 */
export function onlyVanished(stderr: string): boolean {
  const lines = stderr.split(/(?<=\n)/);
  if (!lastWarning.test(lines.at(-1) ?? "") || omittedLine.test(stderr)) return false;
  const errors = lines.filter(line => line.includes('"message_type":"error"'));
  return errors.length > 0 && errors.every(line => /"Err":2[,}]|no such file or directory"/.test(line));
}

/** democratic-csi appends `csi_instance_id=<name>` to the tag of the volume. */
const instanceIn = (tags: readonly string[]): string | undefined =>
  tags.map(tag => /csi_instance_id=(.*)$/.exec(tag)?.[1]).find(name => name !== undefined);

function readBackup(context: OperationContext, fields: Mapping): Read {
  const tags = Array.isArray(fields["tags"]) ? fields["tags"].map(textOf) : [];
  const valued = (name: string) => tags.find(tag => tag.startsWith(`${name}=`))?.slice(name.length + 1);
  const source = valued("source");
  const isOwn = source === "csimux";
  const paths = Array.isArray(fields["paths"]) ? fields["paths"].map(textOf) : [];
  return {
    id: textOf(fields["id"]),
    key: isOwn ? (valued("csi_snapshot_name") ?? "") : "",
    volumeId: isOwn ? (valued("csi_volume_id") ?? "") : basename(paths[0] ?? ""),
    bytes: bytesIn(valued("csi_bytes")),
    created: momentOf(fields["time"]),
    complete: !isOwn || tags.includes(completeTag),
    foreign: foreignMaker(context, { source, connection: valued("csi_connection"), instance: instanceIn(tags) }),
    paths,
    isOwn,
  };
}
