import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** A program of a test in a folder of its own, which keeps there what it was called with. */
export class FakeProgram {
  readonly folder: string;
  /** To be put in front of PATH. */
  readonly bin: string;

  private constructor(folder: string) {
    this.folder = folder;
    this.bin = join(folder, "bin");
  }

  /** `folder` must not exist yet. `script` appends to `calls` and `environment` there. */
  static async at(folder: string, name: string, script: string): Promise<FakeProgram> {
    const fake = new FakeProgram(folder);
    await mkdir(fake.bin, { recursive: true });
    const program = join(fake.bin, name);
    await writeFile(program, script);
    await chmod(program, 0o755);
    return fake;
  }

  /** The arguments of every call so far. */
  async calls(): Promise<readonly string[]> {
    return (await this.#kept("calls")).split("\n").filter(line => line !== "");
  }

  /** The lines of the environments that it was started with. */
  environment(): Promise<string> {
    return this.#kept("environment");
  }

  #kept(file: string): Promise<string> {
    return readFile(join(this.folder, file), "utf8").catch(() => "");
  }
}
