import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawned } from "../../../scripts/spawned.ts";

/** The number of files kept in the volume, and the size of one in bytes. */
const kept = 4;
const bytes = 512 << 10;

/** The time limit of a program on a dead server, in milliseconds. */
const limitMs = 90_000;

/** The expected content of a volume: files that were on stable storage, with their digests. */
export class Ledger {
  readonly #sums = new Map<string, string>();
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async open(): Promise<Ledger> {
    return new Ledger(await mkdtemp(join(tmpdir(), "chaos-")));
  }

  get size(): number {
    return this.#sums.size;
  }

  /** Writes a new file to the volume, which is expected only once it is on stable storage. */
  async write(path: string, name: string): Promise<boolean> {
    const content = randomBytes(bytes);
    const source = join(this.#folder, "data");
    await writeFile(source, content);
    const argv = ["dd", `if=${source}`, `of=${join(path, name)}`, "bs=64k", "conv=fsync", "status=none"] as const;
    if ((await spawned(argv, { cwd: "/", timeoutMs: limitMs })).code !== 0) return false;
    this.#sums.set(name, createHash("sha256").update(content).digest("hex"));
    await this.#trim(path);
    return true;
  }

  /** Files that are lost or changed. Undefined if the volume cannot be read now. */
  async wrong(path: string): Promise<readonly string[] | undefined> {
    if (this.#sums.size === 0) return [];
    const names = [...this.#sums.keys()].map(name => join(path, name));
    const { code, stdout, stderr } = await spawned(["sha256sum", ...names], { cwd: "/", timeoutMs: limitMs });
    const lost = stderr.split("\n").filter(line => line.includes("No such file"));
    const other = stdout.split("\n").filter(line => {
      const [sum, name = ""] = line.split("  ");
      return name !== "" && this.#sums.get(name.slice(path.length + 1)) !== sum;
    });
    return code === 0 || lost.length + other.length > 0 ? [...lost, ...other] : undefined;
  }

  /** A file that could not be removed may exist or not, so nothing is expected of it. */
  async #trim(path: string): Promise<void> {
    for (const name of [...this.#sums.keys()].slice(0, -kept)) {
      this.#sums.delete(name);
      await spawned(["rm", "-f", join(path, name)], { cwd: "/", timeoutMs: limitMs });
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return rm(this.#folder, { recursive: true });
  }
}
