import { chmod, cp, lstat, mkdir, mkdtemp, readdir, readFile, rename, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Files } from "../../lib/io/files.ts";
import type { Command, CommandRunner } from "../../lib/io/runner.ts";

/** A change of names that is not on the disk yet. */
interface Pending {
  /** What it made or removed; for a rename the new path. */
  path: string;
  undo(path: string): Promise<unknown>;
}

/**
 * What a sync takes along. "folder": the names in the folder that is synced, which is all that fsync(2) promises. "journal": everything
 * that was changed before it, because the file system has one journal for all names (Linux, Documentation/filesystems/ext4/journal.rst;
 * XFS, log force); there a file that is flushed takes everything along, too.
 */
export type SyncScope = "folder" | "journal";

/** Content that a tool has written without flushing it. */
interface Unflushed {
  path: string;
}

/**
 * A disk that forgets what was not synced when it loses power. A file that is flushed keeps its name. What a tool has written is there
 * only after sync(1), which syncs the whole file system.
 */
export class Power {
  #pending: Pending[] = [];
  #unflushed: Unflushed[] = [];
  readonly #attic: string;
  readonly #scope: SyncScope;

  private constructor(attic: string, scope: SyncScope) {
    this.#attic = attic;
    this.#scope = scope;
  }

  static async on(scope: SyncScope = "folder"): Promise<Power> {
    return new Power(await mkdtemp(join(tmpdir(), "csimux-power-")), scope);
  }

  close(): Promise<void> {
    return rm(this.#attic, { recursive: true, force: true });
  }

  /** Takes back what is not on the disk, the last first. */
  async lose(): Promise<void> {
    // One at a time: undoing a rename changes the paths of what came before it.
    for (let last = this.#pending.pop(); last; last = this.#pending.pop()) await last.undo(last.path);
    for (const { path } of this.#unflushed.splice(0)) await emptied(path);
  }

  /** The files of a driver, on this disk. */
  files(files: Files): Files {
    const changes = (path: string, undo: Pending["undo"]) => void this.#pending.push({ path, undo });
    return {
      ...files,
      makeFolder: async (path, mode) => {
        await files.makeFolder(path, mode);
        changes(path, made => rm(made, { recursive: true, force: true }));
      },
      removeFolder: async path => {
        const mode = (await lstat(path).catch(() => undefined))?.mode ?? 0;
        await files.removeFolder(path);
        changes(path, async removed => {
          await mkdir(removed);
          await chmod(removed, mode & 0o7777);
        });
      },
      removeFile: async path => {
        const text = await readFile(path).catch(() => undefined);
        await files.removeFile(path);
        if (text) changes(path, removed => writeFile(removed, text));
      },
      rename: async (from, to) => {
        const replaced = await readFile(to).catch(() => undefined);
        await files.rename(from, to);
        this.#move(from, to);
        changes(to, async now => {
          await rename(now, from);
          this.#move(now, from);
          // rename(2) is atomic: one of the two files always has the name.
          if (replaced) await writeFile(now, replaced);
        });
      },
      link: async (file, name) => {
        await files.link(file, name);
        changes(name, made => rm(made, { force: true }));
      },
      writeText: async (path, text, how) => {
        await files.writeText(path, text, how);
        if (this.#scope === "journal") this.#pending = [];
      },
      sync: async folder => {
        const taken = new Set(
          this.#pending.filter(({ path }) => this.#scope === "journal" || dirname(path) === folder),
        );
        await files.sync(folder);
        this.#pending = this.#pending.filter(each => !taken.has(each));
      },
    };
  }

  /** The tools of a driver, on this disk. */
  runner(runner: CommandRunner, base: string): CommandRunner {
    return {
      ...runner,
      run: async (command, signal) => {
        const target = command.argv.at(-1) ?? "";
        if (!target.startsWith(`${base}/`)) return runner.run(command, signal);
        if (has(command, "rm")) return this.#removing(target, () => runner.run(command, signal));
        const output = await runner.run(command, signal);
        if (has(command, "cp") || has(command, "rsync")) this.#unflushed.push({ path: target });
        if (has(command, "sync") && output.exitCode === 0) {
          this.#pending = [];
          this.#unflushed = this.#unflushed.filter(({ path }) => path !== target && !path.startsWith(`${target}/`));
        }
        return output;
      },
    };
  }

  async #removing<T>(path: string, remove: () => Promise<T>): Promise<T> {
    const kept = join(this.#attic, crypto.randomUUID());
    await cp(path, kept, { recursive: true }).catch(() => undefined);
    const done = await remove();
    const undo = (removed: string) => cp(kept, removed, { recursive: true }).catch(() => undefined);
    this.#pending.push({ path, undo });
    return done;
  }

  #move(from: string, to: string): void {
    for (const each of [...this.#unflushed, ...this.#pending])
      if (each.path === from || each.path.startsWith(`${from}/`)) each.path = to + each.path.slice(from.length);
  }
}

const has = ({ argv }: Command, program: string): boolean =>
  argv.some(word => word === program || word.endsWith(`/${program}`));

/** Takes the content of all files below a folder, as when their blocks were never written. Bun's recursive readdir would follow links. */
async function emptied(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await emptied(path);
    else if (entry.isFile()) await truncate(path, 0);
  }
}
