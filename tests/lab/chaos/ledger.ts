import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawned } from "../../../scripts/spawned.ts";

/** How many files stay in the volume, and how much one holds in bytes. */
const kept = 4;
const bytes = 512 << 10;

/** A dead server holds a program up; it is left alone after this, in milliseconds. */
const limitMs = 90_000;

/** What a volume must hold: files that were on stable storage, with their sums. */
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

  /** Writes a new file to the volume, which counts only when the system said that it is on stable storage. */
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

  /** What is wrong with the volume: files that are lost or hold something else. Undefined where it cannot be read now. */
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

  /** A file whose removal failed may be there or not, so nothing is expected of it. */
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
