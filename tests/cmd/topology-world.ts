import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Command } from "commander";
import { addTopology } from "../../cmd/topology/command.ts";

/** What a command printed and how it ended. */
export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Files in a folder of their own, and `csimux topology` run on them in this process. */
export class TopologyWorld {
  readonly folder = mkdtempSync(join(tmpdir(), "csimux-topology-"));

  /** Writes a file and returns its path. */
  file(name: string, text: string): string {
    const path = join(this.folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return path;
  }

  async run(words: readonly string[], { env = {}, stdin = "", colour = false } = {}): Promise<Ran> {
    const out: string[] = [];
    const err: string[] = [];
    const program = new Command("csimux").exitOverride();
    const before = process.exitCode;
    addTopology(program, {
      out: text => void out.push(text),
      err: text => void err.push(text),
      stdin: async () => stdin,
      env,
      hostname: "box",
      colour,
      pause: async () => {},
    });
    await program.parseAsync(["node", "csimux", "topology", ...words]);
    const code = Number(process.exitCode ?? 0);
    process.exitCode = before ?? 0;
    return { code, out: out.join(""), err: err.join("") };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
