import { type Stats, statSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf } from "../core/errno.ts";
import { CsiError } from "../core/errors.ts";
import { isConnectionName } from "../core/handle.ts";

const endings = [".yaml", ".yml"] as const;
type Ending = (typeof endings)[number];

const otherThan = (ending: Ending): Ending => (ending === ".yaml" ? ".yml" : ".yaml");

/** A file that was not touched for this long before it was read cannot have changed behind equal times (coarse clocks). */
const settledMs = 2_000;

/** A file larger than this is no connection file. */
const maxBytes = 1 << 20;

/** What changes when a file is written or replaced (stat(2)). */
type Stamp = Pick<Stats, "dev" | "ino" | "size" | "mtimeMs" | "ctimeMs">;

interface Seen extends Stamp {
  readonly ending: Ending;
  readonly settled: boolean;
  readonly text: string;
}

/**
 * The folder of connection files, `<name>.yaml` or `<name>.yml`, as a Kubernetes Secret volume or a plain folder.
 * A file is looked at on every call; its text is read again only when its times, size or inode moved.
 */
export class ConnectionFolder {
  readonly #folder: string;
  readonly #seen = new Map<string, Seen>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Sorted names. Other files are ignored. Throws "unavailable" when the folder cannot be read. */
  async names(): Promise<readonly string[]> {
    try {
      const names = (await readdir(this.#folder)).flatMap(file => {
        const ending = endings.find(end => file.endsWith(end));
        const name = ending && file.slice(0, -ending.length);
        return name && isConnectionName(name) ? [name] : [];
      });
      return [...new Set(names)].sort();
    } catch (cause) {
      throw new CsiError("unavailable", `the folder of connection files ${this.#folder} cannot be read`, { cause });
    }
  }

  /**
   * The text of a connection file, or undefined when there is none. The name must have passed isConnectionName.
   * Throws "unavailable" when the whole folder cannot be read, "failed-precondition" when the file cannot or both endings exist.
   */
  async read(name: string): Promise<string | undefined> {
    const seen = this.#seen.get(name);
    if (seen?.settled && isUnchanged(seen, stampOf(this.#path(name, seen.ending)))) {
      if (!stampOf(this.#path(name, otherThan(seen.ending)))) return seen.text;
    }
    const now = await this.#load(name);
    if (now) this.#seen.set(name, now);
    else this.#seen.delete(name);
    return now?.text;
  }

  #path(name: string, ending: Ending): string {
    return join(this.#folder, name + ending);
  }

  async #load(name: string): Promise<Seen | undefined> {
    const [yaml, yml] = await Promise.all(endings.map(ending => load(this.#path(name, ending), ending)));
    if (!yaml && !yml) await this.names();
    if (yaml && yml) throw unusable(`connection "${name}" has two files, ${name}.yaml and ${name}.yml; remove one`);
    return yaml ?? yml;
  }
}

/** A Secret volume is swapped by one rename; a file that vanishes between two looks is therefore looked for once more. */
async function load(path: string, ending: Ending, again = true): Promise<Seen | undefined> {
  const before = stampOf(path);
  if (!before) return undefined;
  if (before.size > maxBytes)
    throw unusable(`${path} is larger than ${maxBytes} bytes and cannot be a connection file`);
  try {
    const text = await readFile(path, "utf8");
    const changedMs = Math.max(before.mtimeMs, before.ctimeMs);
    return { ...before, ending, settled: Date.now() - changedMs > settledMs, text };
  } catch (cause) {
    if (isMissing(cause)) return again ? load(path, ending, false) : undefined;
    throw unusable(`${path} cannot be read`, cause);
  }
}

/** Waits for the kernel, not for a disk: Secrets are held in memory, and every call asks. */
function stampOf(path: string): Stamp | undefined {
  let stats: Stats | undefined;
  try {
    stats = statSync(path, { throwIfNoEntry: false });
  } catch (cause) {
    if (!isMissing(cause)) throw unusable(`${path} cannot be read`, cause);
  }
  if (!stats) return undefined;
  // Opening a pipe waits for its writer, and would hold up everything else that needs a file.
  if (!stats.isFile()) throw unusable(`${path} is no regular file`);
  const { dev, ino, size, mtimeMs, ctimeMs } = stats;
  return { dev, ino, size, mtimeMs, ctimeMs };
}

const unusable = (message: string, cause?: unknown): CsiError =>
  new CsiError("failed-precondition", message, { cause });

const isUnchanged = (a: Stamp, b: Stamp | undefined): boolean =>
  b !== undefined &&
  a.ino === b.ino &&
  a.mtimeMs === b.mtimeMs &&
  a.ctimeMs === b.ctimeMs &&
  a.size === b.size &&
  a.dev === b.dev;

const isMissing = (cause: unknown): boolean => ["ENOENT", "ENOTDIR"].includes(errnoOf(cause) ?? "");
