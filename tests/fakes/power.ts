import { chmod, cp, lstat, mkdir, mkdtemp, readdir, readFile, rename, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Files } from "../../lib/io/files.ts";
import type { Command, CommandRunner } from "../../lib/io/runner.ts";

/** A change of names that is in the journal of the file system, but not on the disk yet. */
interface Pending {
  undo(): Promise<void>;
}

/** Content that a tool has written without flushing it. */
interface Unflushed {
  path: string;
}

/**
 * A disk that forgets what was not synced when it loses power. Names are kept by a journal: what is synced takes everything along that
 * was changed before it, and a file that is flushed does so too (Linux, Documentation/filesystems/ext4/journal.rst; XFS, log force).
 * What a tool has written is there only after sync(1).
 */
export class Power {
  #pending: Pending[] = [];
  #unflushed: Unflushed[] = [];
  readonly #attic: string;

  private constructor(attic: string) {
    this.#attic = attic;
  }

  static async on(): Promise<Power> {
    return new Power(await mkdtemp(join(tmpdir(), "csimux-power-")));
  }

  close(): Promise<void> {
    return rm(this.#attic, { recursive: true, force: true });
  }

  /** Takes back what is not on the disk, the last first. */
  async lose(): Promise<void> {
    for (const { undo } of this.#pending.splice(0).reverse()) await undo();
    for (const { path } of this.#unflushed.splice(0)) await emptied(path);
  }

  /** The files of a driver, on this disk. */
  files(files: Files): Files {
    const changes = (undo: Pending["undo"]) => void this.#pending.push({ undo });
    const gone = (path: string) => async () => void (await rm(path, { recursive: true, force: true }));
    return {
      ...files,
      makeFolder: async (path, mode) => {
        await files.makeFolder(path, mode);
        changes(gone(path));
      },
      removeFolder: async path => {
        const mode = (await lstat(path).catch(() => undefined))?.mode ?? 0;
        await files.removeFolder(path);
        changes(async () => {
          await mkdir(path);
          await chmod(path, mode & 0o7777);
        });
      },
      removeFile: async path => {
        const text = await readFile(path).catch(() => undefined);
        await files.removeFile(path);
        if (text) changes(() => writeFile(path, text));
      },
      rename: async (from, to) => {
        const replaced = await readFile(to).catch(() => undefined);
        await files.rename(from, to);
        this.#move(from, to);
        changes(async () => {
          await rename(to, from);
          this.#move(to, from);
          // rename(2) is atomic: one of the two files always has the name.
          if (replaced) await writeFile(to, replaced);
        });
      },
      writeText: async (path, text, how) => {
        await files.writeText(path, text, how);
        this.#pending = [];
      },
      sync: async folder => {
        const before = this.#pending.splice(0);
        try {
          await files.sync(folder);
        } catch (error) {
          this.#pending.unshift(...before);
          throw error;
        }
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
    this.#pending.push({ undo: () => cp(kept, path, { recursive: true }).catch(() => undefined) });
    return done;
  }

  #move(from: string, to: string): void {
    for (const each of this.#unflushed)
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
