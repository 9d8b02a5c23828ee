import { randomBytes } from "node:crypto";
import { masked } from "../../core/secrets.ts";
import type { LongRunningProcess, OutputListener } from "../long-running-process.ts";
import { CommandError, type CommandFailure, defaultMaxBytes, type Output } from "../runner.ts";
import { type Outputs, type Script, scriptTimeoutMs } from "../script.ts";
import { clockText, dataParts, messageParts, type OutputParser, scriptText, type Tag } from "./frame.ts";

/** Starts a login that sends its output to the listener. */
export type Login = (listener: OutputListener) => LongRunningProcess;

const newTag = (): Tag => `csimux-${randomBytes(16).toString("hex")}`;

/** What a shell does before programs run. Storage programs are often outside the PATH of a login without a terminal. */
export const sessionText: readonly string[] = [
  "LC_ALL=C; export LC_ALL",
  "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin; export PATH",
  "umask 022",
];

const greeting = (tag: Tag): string =>
  [
    ...sessionText,
    clockText,
    `now; printf '\\n${tag}:%s\\n${tag}:end\\n' "$n"; printf '${tag}:0\\n${tag}:end\\n' >&2`,
    "",
  ].join("\n");

interface Running {
  readonly script: Script;
  readonly stdout: OutputParser;
  readonly stderr: OutputParser;
  readonly settle: (result: Outputs | CommandError) => void;
}

/** Consumers of stdout and stderr. */
interface OutputHandlers {
  out: (chunk: Uint8Array) => void;
  err: (chunk: Uint8Array) => void;
}

/** A shell on a host that runs one script at a time. It is discarded if its state is in doubt. */
export class Worker {
  readonly #where: string;
  readonly #standing: LongRunningProcess;
  readonly #ears: OutputHandlers;
  /** Seconds of the host's clock when performance.now() was 0. */
  readonly #clock: number;
  #running: Running | undefined;
  #dead = false;

  private constructor(where: string, standing: LongRunningProcess, ears: OutputHandlers, clock: number) {
    this.#where = where;
    this.#standing = standing;
    this.#ears = ears;
    this.#clock = clock;
    this.#listen();
    void standing.ended.then(how => this.#fail("lost", `the connection ended (${how}); the outcome is unknown`));
  }

  /** Whether it can run another script. */
  get usable(): boolean {
    return !this.#dead && !this.#running;
  }

  get dead(): boolean {
    return this.#dead;
  }

  /** Logs in. Rejects with how the login ended, or if no shell answers within `limitMs`. */
  static async open(where: string, login: Login, limitMs: number): Promise<Worker> {
    const tag = newTag();
    const greeted = Promise.withResolvers<number>();
    const hello = { steps: [{ name: "noise", argv: ["true"] }] } as const;
    const [out, err] = [dataParts(tag, hello), messageParts(tag, hello)];
    const heard = (parts: OutputParser, chunk: Uint8Array): void => {
      if (parts.add(chunk)) greeted.reject(new Error("the login shell prints endlessly or out of order"));
      else if (out.ended && err.ended) greeted.resolve(Number(out.parts[0]?.mark));
    };
    const ears: OutputHandlers = { out: chunk => heard(out, chunk), err: chunk => heard(err, chunk) };
    const standing = login({ stdout: chunk => ears.out(chunk), stderr: chunk => ears.err(chunk) });
    const timer = setTimeout(() => greeted.reject(new Error(`no shell answered within ${limitMs} ms`)), limitMs);
    void standing.ended.then(how => greeted.reject(new Error(how)));
    standing.write(greeting(tag));
    try {
      const seconds = await greeted.promise;
      if (!Number.isSafeInteger(seconds))
        throw new Error("the host has neither /proc/uptime nor a date(1) that supports +%s");
      return new Worker(where, standing, ears, seconds - performance.now() / 1000);
    } catch (error) {
      ears.out = () => {};
      ears.err = () => {};
      standing.kill();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Like StorageHost.script. Only for a usable worker. */
  async run(script: Script, signal: AbortSignal): Promise<Outputs> {
    const timeoutMs = script.timeoutMs ?? scriptTimeoutMs;
    const { promise, resolve, reject } = Promise.withResolvers<Outputs>();
    const tag = newTag();
    const settle = (result: Outputs | CommandError): void => {
      this.#running = undefined;
      this.#listen();
      if (result instanceof CommandError) reject(result);
      else resolve(result);
    };
    const running: Running = { script, stdout: dataParts(tag, script), stderr: messageParts(tag, script), settle };
    this.#running = running;
    this.#ears.out = chunk => this.#heard(running, running.stdout, chunk);
    this.#ears.err = chunk => this.#heard(running, running.stderr, chunk);
    const cancel = () => this.#fail("cancelled", "abandoned, because the call has ended");
    const timer = setTimeout(() => this.#fail("timeout", `not finished within ${timeoutMs} ms`), timeoutMs);
    signal.addEventListener("abort", cancel, { once: true });
    try {
      this.#standing.write(scriptText(script, tag, Math.ceil(this.#clock + (performance.now() + timeoutMs) / 1000)));
      return await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", cancel);
    }
  }

  /** Rejects output while idle: it would otherwise count as output of the next script. */
  #listen(): void {
    const unasked = () => this.#fail("lost", "the host wrote output while no script was running");
    this.#ears.out = unasked;
    this.#ears.err = unasked;
  }

  /** Ends the login immediately. The host's shell ends at the next marker that it cannot write. */
  close(): void {
    this.#fail("lost", "the connection was closed");
  }

  #heard(running: Running, parts: OutputParser, chunk: Uint8Array): void {
    const fault = this.#dead ? undefined : parts.add(chunk);
    if (fault === "overflow") {
      const most = running.script.steps[parts.parts.length]?.maxBytes ?? defaultMaxBytes;
      this.#fail("overflow", `wrote more than ${most} bytes`);
    } else if (fault === "disorder") this.#fail("lost", "the output is out of order");
    else if (fault !== undefined) this.#fail("nonsense", fault);
    if (this.#dead || !running.stdout.ended || !running.stderr.ended) return;
    const result = outcome(running, this.#where);
    if (result instanceof CommandError) this.#fail(result.failure, result);
    else running.settle(result);
  }

  #fail(failure: CommandFailure, reason: string | CommandError): void {
    if (!this.#dead) this.#standing.kill();
    this.#dead = true;
    this.#ears.out = () => {};
    this.#ears.err = () => {};
    const running = this.#running;
    if (!running) return;
    const step = running.script.steps[Math.min(running.stdout.parts.length, running.script.steps.length - 1)];
    running.settle(
      reason instanceof CommandError ? reason : new CommandError(this.#where, step?.argv[0] ?? "", failure, reason),
    );
  }
}

/** The outputs of a finished script, or why they are incomplete. */
function outcome({ script, stdout, stderr }: Running, where: string): Outputs | CommandError {
  const outputs = new Map<string, Output>();
  for (const [index, step] of script.steps.entries()) {
    const [out, err] = [stdout.parts[index], stderr.parts[index]];
    const fail = (failure: CommandFailure, reason: string) =>
      new CommandError(where, step.argv[0], failure, masked(reason, step.secret));
    if (out === undefined || out.mark === "end") return fail("killed", "the shell ended before this step");
    if (out.mark === "skipped") continue;
    if (out.mark === "late") return fail("timeout", "not started: the time limit has passed");
    if (err?.mark !== out.mark) return fail("lost", "the output is out of order");
    const known = unstarted[out.mark];
    if (known && err.text.includes(known.words)) return fail(known.failure, known.reason);
    outputs.set(step.name, { stdout: out.text, stderr: masked(err.text, step.secret), exitCode: out.mark });
    if (out.mark !== 0 && step.onFailure !== "go-on") return outputs;
  }
  return outputs;
}

/** Exit codes and messages of a shell that could not start a program (POSIX.1-2017, Shell 2.8.2). */
const unstarted: Readonly<
  Record<number, { readonly failure: CommandFailure; readonly words: string; readonly reason: string }>
> = {
  126: { failure: "denied", words: "ermission denied", reason: "permission to execute it is denied" },
  127: { failure: "missing", words: "not found", reason: "there is no such program" },
};
