import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, openSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Spawned, spawned } from "../spawned.ts";

const pause = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms));

/** Polls until the answer is neither undefined nor false. Throws after `ms` milliseconds. */
export async function until<T>(what: string, ms: number, ask: () => Promise<T | undefined | false>): Promise<T> {
  const end = Date.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    if (Date.now() > end) throw new Error(`not within ${ms / 1000} s: ${what}`);
    await pause(250);
  }
}

async function childOf(pid: number): Promise<number | undefined> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  return Number(children.split(" ")[0]) || undefined;
}

const flags = ["--fork", "--pid", "--mount", "--net", "--ipc", "--uts", "--propagation", "private", "--mount-proc"];

/** Runs a program in the namespaces of a process, by its id on this machine. */
export const inNamespacesOf = (pid: number, argv: readonly string[], timeoutMs: number): Promise<Spawned> =>
  spawned(["nsenter", "-t", String(pid), "-m", "-n", "-p", "-i", "-u", ...argv], { timeoutMs });

/**
 * A machine in namespaces: a script is its first process. When that ends, the kernel ends all other processes of the machine,
 * and its mounts and its network disappear.
 */
export class FirstProcess {
  readonly #folder: string;
  readonly #script: string;

  /** `folder` gets the process id and the log; `script` is a bash script. */
  constructor(folder: string, script: string) {
    this.#folder = folder;
    this.#script = script;
  }

  /** Its process id on this machine; undefined if it is not running. */
  async pid(): Promise<number | undefined> {
    const pid = Number(await readFile(this.#pidFile, "utf8").catch(() => ""));
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    return pid > 1 && command.includes(this.#script) ? pid : undefined;
  }

  /** Starts it with these arguments, without waiting for what it starts. */
  async start(args: readonly string[]): Promise<void> {
    await mkdir(this.#folder, { recursive: true });
    const unshare = this.#launch(args);
    unshare.unref();
    const pid = await until("the machine's first process", 10_000, async () => childOf(unshare.pid ?? 0));
    await writeFile(this.#pidFile, String(pid));
  }

  /** Ends it like a power cut: all its processes, mounts and networks disappear. */
  async end(): Promise<void> {
    const pid = await this.pid();
    if (pid === undefined) return;
    process.kill(pid, "SIGKILL");
    await until("the machine has ended", 60_000, async () => !existsSync(`/proc/${pid}`));
    await rm(this.#pidFile, { force: true });
  }

  get #pidFile(): string {
    return join(this.#folder, "machine.pid");
  }

  #launch(args: readonly string[]): ChildProcess {
    const log = openSync(join(this.#folder, "machine.log"), "a");
    const argv = [...flags, "bash", this.#script, ...args];
    return spawn("unshare", argv, { detached: true, stdio: ["ignore", log, log] });
  }
}
