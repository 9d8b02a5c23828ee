import type { Stats } from "node:fs";
import { readdir, readlink, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { CsiError, errnoOf } from "../core/errors.ts";
import { isConnectionName } from "../core/handle.ts";
import { TimeLimit } from "../core/time.ts";
import { fileThreads } from "./file-threads.ts";
import { sharedNext } from "./shared-next.ts";
import { openSmallFile } from "./small-file.ts";

const endings = [".yaml", ".yml"] as const;
type FileEnding = (typeof endings)[number];

const otherThan = (ending: FileEnding): FileEnding => (ending === ".yaml" ? ".yml" : ".yaml");

/** A file unchanged for this long before it was read cannot change without different times (coarse clocks). */
const settledMs = 2_000;

/** The largest size of a connection file, in bytes. */
const maxBytes = 1 << 20;

/**
 * The time limit for reading a file, in milliseconds: half of the sidecars' timeout, so that the last valid file can
 * still answer.
 */
const patienceMs = 5_000;

/** The fields that change when a file is written or replaced (stat(2)). */
type Stamp = Pick<Stats, "dev" | "ino" | "size" | "mtimeMs" | "ctimeMs">;

interface SeenFile extends Stamp {
  readonly ending: FileEnding;
  /**
   * The path of the file; for a link, the path that it points to, by text alone. It determines which device a check may
   * wait for.
   */
  readonly place: string;
  readonly settled: boolean;
  readonly text: string;
}

/**
 * The folder of connection files, `<name>.yaml` or `<name>.yml`, as a Kubernetes Secret volume or a plain folder. A
 * file is checked on every call; its text is read again only if its times, size or inode have changed. A file or folder
 * that does not answer holds a bounded number of threads and counts as unreadable after five seconds.
 */
export class ConnectionFolder {
  readonly #folder: string;
  readonly #seen = new Map<string, SeenFile>();
  readonly #limit: TimeLimit;
  /** Calls that come at once share a read. */
  readonly #read: (name: string) => Promise<string | undefined>;

  constructor(folder: string, patience = patienceMs) {
    this.#folder = resolve(folder);
    this.#limit = new TimeLimit(patience);
    this.#read = sharedNext(name => this.#limited(name));
  }

  /** The folder as an absolute path. */
  get path(): string {
    return this.#folder;
  }

  /** Device and inode of the folder (stat(2)); undefined while it is inaccessible. */
  async mark(): Promise<string | undefined> {
    try {
      const look = () => this.#on(this.#folder, () => stat(this.#folder));
      const { dev, ino } = await this.#limit.ask("/", look, () => new Error("it does not answer"));
      return `${dev}:${ino}`;
    } catch {
      return undefined;
    }
  }

  /** Sorted names. Other files are ignored. Throws "unavailable" if the folder cannot be read. */
  async names(): Promise<readonly string[]> {
    const unreadable = (cause?: unknown) =>
      new CsiError("unavailable", `the folder of connection files ${this.#folder} cannot be read${reasonOf(cause)}`, {
        cause,
      });
    try {
      const list = () => this.#on(this.#folder, () => readdir(this.#folder));
      return namesIn(await this.#limit.ask("", list, () => new Error("it does not answer")));
    } catch (cause) {
      throw unreadable(cause);
    }
  }

  /**
   * The text of a connection file, or undefined if there is none. The name must have passed isConnectionName. Throws
   * "unavailable" if the folder cannot be read, "failed-precondition" if the file cannot be read or both endings exist.
   */
  read(name: string): Promise<string | undefined> {
    return this.#read(name);
  }

  #limited(name: string): Promise<string | undefined> {
    return this.#limit.ask(
      name,
      () => this.#current(name),
      () => unusable(`the file of connection "${name}" in ${this.#folder} does not answer; check its file system`),
    );
  }

  async #current(name: string): Promise<string | undefined> {
    const seen = this.#seen.get(name);
    if (seen?.settled && (await this.#stands(name, seen))) return seen.text;
    const now = await this.#load(name);
    if (now) this.#seen.set(name, now);
    else this.#seen.delete(name);
    return now?.text;
  }

  /** Whether the file is unchanged and still the only one of its name. */
  async #stands(name: string, seen: SeenFile): Promise<boolean> {
    const other = this.#path(name, otherThan(seen.ending));
    const [now, second] = await Promise.all([
      this.#on(seen.place, () => stampOf(this.#path(name, seen.ending))),
      this.#on(this.#folder, () => stampOf(other)),
    ]);
    return second === undefined && isUnchanged(seen, now);
  }

  #path(name: string, ending: FileEnding): string {
    return join(this.#folder, name + ending);
  }

  #on<T>(path: string, work: () => Promise<T>): Promise<T> {
    return fileThreads.on(path).run(work);
  }

  /** A Secret volume is replaced by one rename, so a file that vanishes between two checks is read again. */
  async #load(name: string, again = true): Promise<SeenFile | undefined> {
    const [yaml, yml] = await Promise.all(endings.map(ending => this.#open(name, ending)));
    if (yaml && yml) throw unusable(`connection "${name}" has two files, ${name}.yaml and ${name}.yml; remove one`);
    if (yaml || yml) return yaml ?? yml;
    const there = (await this.names()).includes(name);
    return there && again ? this.#load(name, false) : undefined;
  }

  async #open(name: string, ending: FileEnding): Promise<SeenFile | undefined> {
    const path = this.#path(name, ending);
    const place = await this.#on(this.#folder, () => placeOf(path));
    const file = await this.#on(place, () => openSmallFile(path, maxBytes));
    if (!file) return undefined;
    const { dev, ino, size, mtimeMs, ctimeMs } = file.stats;
    const settled = Date.now() - Math.max(mtimeMs, ctimeMs) > settledMs;
    return { dev, ino, size, mtimeMs, ctimeMs, ending, place, settled, text: file.text };
  }
}

function namesIn(files: readonly string[]): readonly string[] {
  const names = files.flatMap(file => {
    const ending = endings.find(end => file.endsWith(end));
    const name = ending && file.slice(0, -ending.length);
    return name && isConnectionName(name) ? [name] : [];
  });
  return [...new Set(names)].sort();
}

/** The target of a path's last part if it is a link, by text alone. */
async function placeOf(path: string): Promise<string> {
  try {
    return resolve(dirname(path), await readlink(path));
  } catch {
    return path;
  }
}

async function stampOf(path: string): Promise<Stamp | undefined> {
  try {
    const { dev, ino, size, mtimeMs, ctimeMs } = await stat(path);
    return { dev, ino, size, mtimeMs, ctimeMs };
  } catch (cause) {
    if (["ENOENT", "ENOTDIR"].includes(errnoOf(cause) ?? "")) return undefined;
    throw unusable(`${path} cannot be read${reasonOf(cause)}`, cause);
  }
}

const reasonOf = (cause: unknown): string => (cause instanceof Error ? ` (${errnoOf(cause) ?? cause.message})` : "");

const unusable = (message: string, cause?: unknown): CsiError =>
  new CsiError("failed-precondition", message, { cause });

const isUnchanged = (a: Stamp, b: Stamp | undefined): boolean =>
  b !== undefined &&
  a.ino === b.ino &&
  a.mtimeMs === b.mtimeMs &&
  a.ctimeMs === b.ctimeMs &&
  a.size === b.size &&
  a.dev === b.dev;
