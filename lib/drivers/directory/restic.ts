import { basename, dirname, join, normalize } from "node:path";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { Semaphore, semaphores } from "../../core/semaphore.ts";
import { pause } from "../../core/time.ts";
import type { CommandRunner, Output } from "../../io/runner.ts";
import { inPlace } from "./attended.ts";
import {
  ambiguous,
  type Backup,
  type BackupRequest,
  type BackupTool,
  backupFailure,
  bytesIn,
  foreignMaker,
  type JsonObject,
  momentOf,
  onlyMatch,
  ownOnes,
  rowsOf,
  runTool,
  type ToolSettings,
  textOf,
  unlimitedMs,
} from "./backup-tool.ts";
import type { OperationContext } from "./operation-context.ts";
import { sealed } from "./sealed.ts";

/** `snapshots.restic`. */
export interface ResticSettings extends ToolSettings {
  /** Free the space of a forgotten backup at once. */
  readonly prune: boolean;
}

/** The host under which backups are filed: the same wherever the controller runs, so that each finds its predecessor. */
const host = "csimux";

/** The tag that a backup gets when all of it is there. Until then it is what an interrupted call left. */
const completeTag = "csi_complete";

/** Exit code of `restic backup` when some files could not be read (restic, "Exit status codes"). */
const someUnread = 3;

/** After what time a repository that somebody else uses is tried again, in milliseconds. */
const againMs = 1_000;

const isLocked = /already locked|unable to create lock/;

const noRepository = /Is there a repository at the following location|repository does not exist/;

/**
 * Making a repository, one at a time for all connections of this process. Two `restic init` at once both find nothing, write a key each and
 * one configuration after the other: the repository then has a key that does not open it, and may be unusable for good.
 */
const makings = semaphores(1);

interface Read extends Backup {
  readonly paths: readonly string[];
  readonly isOwn: boolean;
}

/** Snapshots with restic(1), 0.14 and newer. */
export class Restic implements BackupTool {
  readonly method = "restic";
  readonly #space: OperationContext;
  readonly #settings: ResticSettings;
  /** What changes the repository is done one after the other: marking and forgetting lock out everything else. */
  readonly #turns = new Semaphore(1);
  #ready: Promise<void> | undefined;

  constructor(space: OperationContext, settings: ResticSettings) {
    this.#space = space;
    this.#settings = settings;
  }

  async find(key: string | undefined, call: Call): Promise<readonly Backup[]> {
    await this.#repository(call);
    const tags = [...this.#ownTags(), ...(key === undefined ? [] : [nameTag(key)])];
    return ownOnes(await this.#list(["--tag", tags.join(",")], call), key);
  }

  async get(id: string, call: Call): Promise<Backup | undefined> {
    return await this.#read(id, call);
  }

  async take(at: OperationContext, folder: string, { key, volumeId, bytes }: BackupRequest, call: Call): Promise<void> {
    await this.#repository(call);
    const about = [...this.#ownTags(), `csi_volume_id=${volumeId}`, nameTag(key), `csi_bytes=${bytes}`];
    const tags = [...about, ...this.#settings.tags].flatMap(tag => ["--tag", tag]);
    await this.#turns.run(async () => {
      const id = await inPlace(at, call, attended =>
        sealed(at, folder, attended, ({ source, runner }) => this.#backup(source, tags, runner, attended)),
      );
      const marked = await this.#alone("tag", ["--add", completeTag, id], call);
      if (marked.exitCode !== 0) throw this.#failure("mark a snapshot as complete", marked);
    }, call.signal);
  }

  async restore(at: OperationContext, id: string, folder: string, call: Call): Promise<string> {
    const backup = await this.#read(id, call);
    const path = normalize(backup?.paths[0] ?? "");
    if (!backup || !path.startsWith("/") || path === "/") throw this.#gone(id);
    const words = [backup.id, "--target", folder];
    const output = await inPlace(at, call, attended => this.#run("restore", words, attended, unlimitedMs));
    if (output.exitCode !== 0) throw this.#failure("restore a snapshot", output);
    return join(folder, backup.isOwn ? basename(path) : path);
  }

  async forget(id: string, call: Call): Promise<void> {
    await this.#repository(call);
    const words = [...(this.#settings.prune ? ["--prune"] : []), id];
    const output = await this.#turns.run(() => this.#alone("forget", words, call), call.signal);
    if (output.exitCode !== 0) throw this.#failure("forget a snapshot", output);
    // Before 0.17 restic ends with 0 also where the storage refused the removal (an append-only server, a locked object).
    if (await this.#read(id, call)) throw this.#failure("forget a snapshot", output);
  }

  async close(): Promise<void> {}

  /** From the folder around the volume's, so that the volume's own permissions and owner are part of the backup. */
  async #backup(source: string, tags: readonly string[], runner: CommandRunner, call: Call): Promise<string> {
    const { env, flags } = this.#settings;
    const words = ["backup", "--json", ...flags, "--host", host, "--one-file-system", ...tags, "--", basename(source)];
    const argv = ["env", "-C", dirname(source), "restic", ...words] as const;
    const output = await runTool(this.#space, env, argv, call, { runner, timeoutMs: unlimitedMs });
    const id = idIn(output.stdout);
    if (output.exitCode === someUnread && id && onlyVanished(output.stderr)) return id;
    if (output.exitCode === 0 && id) return id;
    throw this.#failure("read a volume", output);
  }

  /** Once for each process. A repository that is not there is made; one that does not answer is none of these. */
  #repository(call: Call): Promise<void> {
    this.#ready ??= this.#open(call).catch((error: unknown) => {
      this.#ready = undefined;
      throw error;
    });
    return this.#ready;
  }

  async #open(call: Call): Promise<void> {
    const seen = await this.#run("cat", ["--no-lock", "config"], call);
    if (seen.exitCode === 0) return;
    if (!noRepository.test(seen.stderr)) throw this.#failure("open the repository", seen);
    const made = await makings(this.#place()).run(async () => {
      const again = await this.#run("cat", ["--no-lock", "config"], call);
      return again.exitCode === 0 ? again : await this.#run("init", [], call);
    }, call.signal);
    if (made.exitCode === 0 || /already (exists|initialized)/.test(made.stderr)) return;
    throw this.#failure("make the repository", made);
  }

  /** Equal text means the same repository. */
  #place(): string {
    const { env, flags } = this.#settings;
    return JSON.stringify([env["RESTIC_REPOSITORY"], env["RESTIC_REPOSITORY_FILE"], flags]);
  }

  async #read(id: string, call: Call): Promise<Read | undefined> {
    await this.#repository(call);
    const found = await this.#list([id], call);
    return onlyMatch(this.#space, "restic", found, id);
  }

  async #list(filter: readonly string[], call: Call): Promise<readonly Read[]> {
    const output = await this.#run("snapshots", ["--json", "--no-lock", ...filter], call);
    if (output.exitCode !== 0 && /no matching ID/.test(output.stderr)) return [];
    if (output.exitCode !== 0) throw this.#failure("list snapshots", output);
    // restic only complains of an ambiguous id and prints an empty list.
    if (/multiple IDs/i.test(output.stderr)) throw ambiguous(this.#space, "restic", filter[0] ?? "");
    return rowsOf(this.#space, "restic", output.stdout).map(row => readBackup(this.#space, row));
  }

  #ownTags(): readonly string[] {
    return ["source=csimux", `csi_connection=${this.#space.connection}`];
  }

  /**
   * Runs what restic does only while nobody else uses the repository, and waits for others as long as the call lasts. `unlock` takes
   * away the locks of those that were killed, and no others (restic-unlock(1)).
   */
  async #alone(command: string, words: readonly string[], call: Call): Promise<Output> {
    for (;;) {
      const output = await this.#run(command, words, call, unlimitedMs);
      if (output.exitCode === 0 || !isLocked.test(output.stderr) || call.signal.aborted) return output;
      await this.#run("unlock", [], call);
      await pause(againMs, call.signal).catch(() => {});
    }
  }

  #run(command: string, words: readonly string[], call: Call, timeoutMs = 90_000): Promise<Output> {
    const { env, flags } = this.#settings;
    return runTool(this.#space, env, ["restic", command, ...flags, ...words], call, { timeoutMs });
  }

  #failure(doing: string, output: Output): CsiError {
    return backupFailure(this.#space, "restic", doing, output);
  }

  #gone(id: string): CsiError {
    return new CsiError("not-found", `connection "${this.#space.connection}": restic has no snapshot "${id}"`);
  }
}

const nameTag = (key: string): string => `csi_snapshot_name=${key}`;

/** The id in the last line of `backup --json`. */
function idIn(stdout: string): string | undefined {
  return /"snapshot_id":"([0-9a-f]{8,64})"/.exec(stdout.trim().split("\n").at(-1) ?? "")?.[1];
}

/** The last line of a backup that ends with `someUnread`, which proves that no error is cut off (restic, ErrInvalidSourceData). */
const lastWarning = /^.*at least one source file could not be read.*\n$/;

/**
 * Whether restic missed nothing but files that went away while it read a volume in use (ENOENT). What the runner left out between the
 * first and the last words could be any error.
 */
export function onlyVanished(stderr: string): boolean {
  const lines = stderr.split(/(?<=\n)/);
  if (!lastWarning.test(lines.at(-1) ?? "") || /^\[\d+ bytes left out\]$/m.test(stderr)) return false;
  const errors = lines.filter(line => line.includes('"message_type":"error"'));
  return errors.length > 0 && errors.every(line => /"Err":2[,}]|no such file or directory"/.test(line));
}

/** democratic-csi glues `csi_instance_id=<name>` to the tag of the volume where it has one. */
const instanceIn = (tags: readonly string[]): string | undefined =>
  tags.map(tag => /csi_instance_id=(.*)$/.exec(tag)?.[1]).find(name => name !== undefined);

function readBackup(space: OperationContext, fields: JsonObject): Read {
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
    foreign: foreignMaker(space, { source, connection: valued("csi_connection"), instance: instanceIn(tags) }),
    paths,
    isOwn,
  };
}
