import { expect } from "bun:test";
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "../../scripts/build.ts";
import { root, spawned } from "../../scripts/spawned.ts";
import { TutorialCluster } from "./cluster.ts";
import { type Section, sectionsOf } from "./page.ts";

/** A person who copies the commands of a page, in a folder that looks like a checkout, with a cluster. */
export class Reader {
  readonly sections: readonly Section[];
  readonly cluster: TutorialCluster;
  readonly folder: string;
  /** What this person writes in place of the page's examples, by the text of the page. Each must occur. */
  readonly changes = new Map<string | RegExp, string>();
  readonly #bin: string;

  private constructor(page: string, folder: string, csimux: string) {
    this.sections = sectionsOf(page);
    this.folder = folder;
    this.#bin = join(folder, "bin");
    this.cluster = new TutorialCluster({ folder, bin: this.#bin, csimux });
  }

  static async start(page: string): Promise<Reader> {
    const csimux = await build();
    const reader = new Reader(page, mkdtempSync(join(tmpdir(), "csimux-tutorial-")), csimux);
    const bin = join(reader.folder, "bin");
    mkdirSync(bin);
    symlinkSync(csimux, join(bin, "csimux"));
    cpSync(join(root, "examples"), join(reader.folder, "examples"), { recursive: true });
    reader.program("sudo", 'exec "$@"');
    reader.recorded("make", "skopeo", "install");
    await reader.cluster.start();
    return reader;
  }

  program(name: string, text: string): void {
    writeFileSync(join(this.#bin, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(this.#bin, name), 0o755);
  }

  /** Programs that change a computer, which only have to exist here. */
  recorded(...names: readonly string[]): void {
    for (const name of names) this.program(name, "exit 0");
  }

  /** Runs the commands of a section in the shell in which those before ran. */
  async plays(start: string): Promise<string> {
    const section = this.sections.find(({ title }) => title.startsWith(start));
    return this.runs(section?.commands ?? "");
  }

  async runs(commands: string): Promise<string> {
    let text = commands;
    for (const [from, to] of this.changes) text = text.replaceAll(from, to);
    const variables = join(this.folder, "variables");
    const before = existsSync(variables) ? `. ${variables}\n` : "";
    const kept = `{ declare -p nas key host hostkey nodes registry fingerprint chap || true; } > ${variables} 2>/dev/null`;
    const env = { PATH: `${this.#bin}:${process.env["PATH"]}`, HOME: this.folder };
    const argv = ["bash", "-euo", "pipefail", "-c", `${before}${text}\n${kept}\n`] as const;
    const { code, stdout, stderr } = await spawned(argv, { cwd: this.folder, env });
    // The accounts of the machine that runs this are those of its storage host.
    const said = stderr.replace(/^csimux: .* other accounts can log in to its host .*\n/gm, "");
    expect([code, code === 0 ? "" : stdout, said]).toEqual([0, "", ""]);
    return stdout;
  }

  async end(): Promise<void> {
    await this.cluster.end();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
