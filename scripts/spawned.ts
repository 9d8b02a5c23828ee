import { spawn } from "node:child_process";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The checkout, without a trailing slash. */
export const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");

/** A program of node_modules/.bin. */
export const tool = (name: string): string => `${root}/node_modules/.bin/${name}`;

/** A folder of files that are kept between runs, outside the checkout, so that all checkouts share them. */
export const cacheFolder = (name: string): string =>
  join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), name);

/** The result of a program. */
export interface Spawned {
  /** The exit code; 137 after a signal, 127 if it could not be started. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Options of `spawned`. */
export interface SpawnOptions {
  readonly cwd?: string;
  /** Added to the environment of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Prints the output instead of collecting it. */
  readonly show?: boolean;
  /** The time limit in milliseconds; ten minutes if absent. */
  readonly timeoutMs?: number;
  /** Kills the program and those that it has started. */
  readonly signal?: AbortSignal;
}

/** Runs a program to its end. Never rejects: failures are in the code and in stderr. */
export function spawned(argv: readonly [string, ...string[]], options: SpawnOptions = {}): Promise<Spawned> {
  const [program, ...args] = argv;
  const { timeoutMs = 600_000 } = options;
  const began = performance.now();
  return new Promise(resolve => {
    const child = spawn(program, args, {
      cwd: options.cwd ?? root,
      env: { ...process.env, ...options.env },
      stdio: ["ignore", options.show ? "inherit" : "pipe", options.show ? "inherit" : "pipe"],
      timeout: timeoutMs,
      killSignal: "SIGKILL",
      // A process group of its own, which one kill ends.
      detached: options.signal !== undefined,
    });
    const end = () => void (child.pid !== undefined && process.kill(-child.pid, "SIGKILL"));
    options.signal?.addEventListener("abort", end, { once: true });
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    child.stdout?.on("data", (chunk: Buffer) => stdout.push(chunk));
    child.stderr?.on("data", (chunk: Buffer) => stderr.push(chunk));
    const done = (code: number, extra = "") => {
      options.signal?.removeEventListener("abort", end);
      resolve({ code, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() + extra });
    };
    child.on("error", error => done(127, error.message));
    child.on("close", (code, signal) => {
      const isLate = performance.now() - began >= timeoutMs;
      const why = isLate ? `, because of its time limit of ${timeoutMs / 1000} s` : "";
      done(code ?? 137, signal ? `ended by ${signal}${why}` : "");
    });
  });
}

/** The libraries that a program of this machine loads; none if it is static (ldd(1)). */
export async function librariesOf(program: string): Promise<readonly string[]> {
  const { stdout } = await spawned(["ldd", program]);
  return [...stdout.matchAll(/\/\S+\.so\S*/g)].map(([library]) => library);
}
