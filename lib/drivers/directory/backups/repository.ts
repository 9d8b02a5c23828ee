import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Call } from "../../../core/call.ts";
import type { CsiError } from "../../../core/errors.ts";
import { Semaphore, semaphores } from "../../../core/semaphore.ts";
import { pause } from "../../../core/time.ts";
import { omittedLine } from "../../../io/capture.ts";
import {
  type Argv,
  type Command,
  type CommandRunner,
  ignoreMissing,
  notFoundExit,
  type Output,
  unlimitedMs,
} from "../../../io/runner.ts";
import { errorOn, type OperationContext } from "../operation-context.ts";
import { sealed } from "../sealed.ts";
import { whileAnswering } from "../while-answering.ts";
import {
  type Backup,
  type BackupMethod,
  type BackupTool,
  backupFailure,
  backupsIn,
  type Environment,
  noRepository,
  type ToolSettings,
} from "./tool.ts";

/** The data of a new backup. */
export type BackupRequest = Pick<Backup, "key" | "volumeId" | "bytes">;

/** How a program runs, and in which folder. */
type Execution = Pick<Command, "timeoutMs" | "stdin"> & { readonly runner?: CommandRunner; readonly folder?: string };

/** A repository may hold very many snapshots. */
const maxBytes = 64 << 20;

/** The time limit of what does not depend on the size of a volume, in milliseconds. */
const usualMs = 90_000;

/** The pause before a locked repository is tried again, in milliseconds. */
const againMs = 1_000;

/** How often a list is asked for that lacks something: what another process has just removed is not missing the second time. */
const listings = 2;

/**
 * Serializes the creation of repositories for all connections of this process. Two concurrent `restic init` would both find
 * nothing and write a key and a configuration each: the repository may then be unusable for good.
 */
const creations = semaphores(1);

/** Short values are not masked: they would match ordinary text. */
const secretsOf = (env: Environment): readonly string[] => Object.values(env).filter(value => value.length >= 6);

/** The folders that a tool keeps in a repository. All methods throw CsiError, "failed-precondition" without the program. */
export class Repository {
  readonly method: BackupMethod;
  readonly #context: OperationContext;
  readonly #tool: BackupTool;
  readonly #settings: ToolSettings;
  readonly #turns: Semaphore;
  #isThere = false;
  /** What the session of this process keeps. */
  #folder: Promise<string> | undefined;
  /** The folders that have the policy, which is set once per process. */
  readonly #ruled = new Set<string>();

  constructor(context: OperationContext, tool: BackupTool, settings: ToolSettings) {
    this.method = tool.method;
    this.#context = context;
    this.#tool = tool;
    this.#settings = settings;
    this.#turns = new Semaphore(tool.changesAtOnce);
  }

  /**
   * The backups of this connection, including incomplete ones, in no particular order; only those of `key`, if given.
   * Where there is no repository yet, there is no backup of any name, and one is made for that of a key.
   */
  async find(key: string | undefined, call: Call): Promise<readonly Backup[]> {
    if (key !== undefined) await this.#make(call);
    else if (await this.#missing(call)) return [];
    const tags = this.#ownTags(key === undefined ? {} : { csi_snapshot_name: key });
    const all = await this.#list(this.#tool.list(tags), call);
    // The filter of a tool alone is not trusted.
    return all.filter(each => each.foreign === undefined && each.key !== "" && (key ?? each.key) === each.key);
  }

  /**
   * Also finds foreign backups. `id` may be the beginning of an id. Throws "failed-precondition" if it is ambiguous,
   * and without a repository, whose storage may only not be mounted.
   */
  async get(id: string, call: Call): Promise<Backup | undefined> {
    const missing = await this.#missing(call);
    if (missing) throw this.#failure("open the repository", missing);
    const found = (await this.#list(this.#tool.one(id), call)).filter(backup => backup.id.startsWith(id));
    if (found.length <= 1) return found[0];
    const what = `several snapshots of ${this.method} have ids that begin with "${id}"; use the complete id`;
    throw errorOn(this.#context, "failed-precondition", what);
  }

  /** Makes a complete backup of the folder of a volume below the base folder of `at`, which pods may change meanwhile. */
  async take(at: OperationContext, folder: string, { key, volumeId, bytes }: BackupRequest, call: Call): Promise<void> {
    const tool = this.#tool;
    const about = this.#ownTags({ csi_volume_id: volumeId, csi_snapshot_name: key, csi_bytes: `${bytes}` });
    const tags = [...about, ...this.#settings.tags.map(tool.tag)];
    await this.#turns.run(async () => {
      const output = await whileAnswering(at, call, attended =>
        sealed(at, folder, attended, async ({ source, runner }) => {
          const parent = dirname(source);
          await this.#rule(parent, attended);
          const words = tool.take(source, tags, this.#context.local);
          return await this.#change(words, attended, { runner, timeoutMs: unlimitedMs, folder: parent });
        }),
      );
      const id = tool.taken(this.#context, output);
      if (id === undefined) throw this.#failure("read all of a volume", output);
      if (!tool.mark) return;
      const marked = await this.#change(tool.mark(id), call, { timeoutMs: unlimitedMs });
      if (marked.exitCode !== 0) throw this.#failure("mark a snapshot as complete", marked);
    }, call.signal);
  }

  /** Writes a backup into an empty folder. Returns the path of the volume's folder: that folder, or one in it. */
  async restore(at: OperationContext, { id, within }: Backup, folder: string, call: Call): Promise<string> {
    if (within === undefined) throw this.gone(id);
    const output = await whileAnswering(at, call, attended =>
      this.#run(this.#tool.restore(id, folder), attended, { timeoutMs: unlimitedMs }),
    );
    if (output.exitCode === 0) return join(folder, within);
    // kopia says the same of a blob that a damaged repository, or a storage that does not answer in full, lacks
    // (repo/blob/storage.go, ErrBlobNotFound).
    const failure = this.#failure("restore a snapshot", output);
    throw failure.code !== "unavailable" || (await this.get(id, call)) ? failure : this.gone(id);
  }

  /** Removes the backup with this complete id. Succeeds if there is none; throws "unavailable" unless the repository shows that it is gone. */
  async forget(id: string, call: Call): Promise<void> {
    const { forget, forgetMs, gone } = this.#tool;
    const removal = () => this.#change(forget(id), call, { timeoutMs: forgetMs });
    const output = await this.#turns.run(removal, call.signal);
    const isDone = output.exitCode === 0 || gone?.test(output.stderr);
    // restic before 0.17 exits with 0 even if the storage refused the removal (an append-only server, a locked object).
    if (!isDone || (await this.get(id, call))) throw this.#failure("delete a snapshot", output);
  }

  /** Releases the resources of the program on this machine. */
  async close(): Promise<void> {
    const folder = await this.#folder?.catch(() => undefined);
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  }

  /** The error for a backup that is not there. */
  gone(id: string): CsiError {
    return errorOn(this.#context, "not-found", `${this.method} has no snapshot "${id.slice(0, 64)}"`);
  }

  /**
   * What the tool says of a repository that does not exist; undefined for one that does, which is found once per process. One that does not
   * answer is not missing.
   */
  async #missing(call: Call): Promise<Output | undefined> {
    const { creation } = this.#tool;
    if (this.#isThere || !creation) return undefined;
    const seen = await this.#run(creation.look, call);
    this.#isThere = seen.exitCode === 0;
    if (this.#isThere || noRepository.test(seen.stderr)) return this.#isThere ? undefined : seen;
    throw this.#failure("open the repository", seen);
  }

  /** Creates a missing repository. Only for a new backup: in a new repository, every earlier backup would look deleted. */
  async #make(call: Call): Promise<void> {
    const { creation } = this.#tool;
    if (!creation || !(await this.#missing(call))) return;
    const made = await creations(creation.place).run(
      async () => ((await this.#missing(call)) ? await this.#run(creation.make, call) : undefined),
      call.signal,
    );
    if (!made || made.exitCode === 0 || creation.made.test(made.stderr)) return;
    throw this.#failure("create the repository", made);
  }

  /** Sets the policy. The tool runs in the folder: kopia takes a path with "@" for a user and a host (ParseSourceInfo). */
  async #rule(folder: string, call: Call): Promise<void> {
    const { policy } = this.#tool;
    if (!policy || this.#ruled.has(folder)) return;
    const output = await this.#run(policy, call, { folder });
    if (output.exitCode !== 0) throw this.#failure("set its policy for volumes", output);
    this.#ruled.add(folder);
  }

  /**
   * The tools omit what they cannot read, up to all of it if the storage does not answer, and exit with 0. An omitted
   * backup must not count as deleted: throws for such a list.
   */
  async #list(words: readonly string[], call: Call): Promise<readonly Backup[]> {
    const { unread, none } = this.#tool;
    for (let left = listings; ; left--) {
      const output = await this.#run(words, call);
      const { exitCode, stderr, stdout } = output;
      if (exitCode !== 0 && none?.test(stderr)) return [];
      if (exitCode !== 0) throw this.#failure("list snapshots", output);
      const isWhole = !unread.test(stderr) && !omittedLine.test(stderr);
      if (isWhole) return backupsIn(this.#context, this.#tool, stdout);
      if (left === 1) throw this.#failure("read all snapshots", output);
    }
  }

  #ownTags(more: Readonly<Record<string, string>>): readonly string[] {
    const own = { source: "csimux", csi_connection: this.#context.connection, ...more };
    return Object.entries(own).map(([name, value]) => `${name}${this.#tool.joint}${value}`);
  }

  /** Runs a command, which does nothing while other users have the lock that it needs, again while the call lasts. */
  async #change(words: readonly string[], call: Call, how: Execution): Promise<Output> {
    const { lock } = this.#tool;
    for (;;) {
      const output = await this.#run(words, call, how);
      if (!lock?.isHeld(output) || call.signal.aborted) return output;
      await this.#run(lock.release, call);
      await pause(againMs, call.signal).catch(() => {});
    }
  }

  async #run(words: readonly string[], call: Call, how: Execution = {}): Promise<Output> {
    const { commandWords } = this.#tool;
    const all = [...words.slice(0, commandWords), ...this.#settings.flags, ...words.slice(commandWords)];
    return await this.#execute(await this.#environment(call), all, call, how);
  }

  /** The variables of the tool are in its environment, not in a command line. */
  async #execute(
    env: Environment,
    words: readonly string[],
    call: Call,
    { runner = this.#context.runner, folder, ...how }: Execution,
  ): Promise<Output> {
    const argv: Argv = folder === undefined ? [this.method, ...words] : ["env", "-C", folder, this.method, ...words];
    const command = { argv, env, secret: secretsOf(env), maxBytes, timeoutMs: usualMs, ...how };
    const output = await runner.run(command, call.signal).catch(ignoreMissing);
    if (output && (folder === undefined || output.exitCode !== notFoundExit)) return output;
    throw errorOn(
      this.#context,
      "failed-precondition",
      `${this.method} is not installed; install it where csimux runs`,
    );
  }

  /** The environment of a tool that is connected to its repository; connects once per process. */
  async #environment(call: Call): Promise<Environment> {
    const { session } = this.#tool;
    if (!session) return this.#settings.env;
    this.#folder ??= this.#connect(session, call).catch((error: unknown) => {
      this.#folder = undefined;
      throw error;
    });
    return session.env(await this.#folder);
  }

  async #connect({ words, stdin, env }: NonNullable<BackupTool["session"]>, call: Call): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), `csimux-${this.method}-`));
    try {
      const output = await this.#execute(env(folder), words, call, { stdin });
      if (output.exitCode !== 0) throw this.#failure("connect to the repository", output);
      return folder;
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  #failure(doing: string, output: Output): CsiError {
    return backupFailure(this.#context, this.method, doing, output);
  }
}
