import { readFileSync, statSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { createInterface } from "node:readline/promises";
import { setTimeout } from "node:timers/promises";
import { errnoOf } from "../lib/core/errors.ts";
import type { ValueResolver } from "../lib/schema/value-resolver.ts";

/** The environment of a command; tests pass their own. */
export interface Host {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** Whether the reader of `out` has closed it, which shows when something is written. */
  readonly unread?: () => boolean;
  /** Standard input as text: all of it, or its beginning with at least `mostBytes` bytes. */
  readonly stdin: (mostBytes?: number) => Promise<string>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly hostname: string;
  /** Whether `out` may contain colours: it is a terminal, and NO_COLOR is not set (no-color.org). */
  readonly colour: boolean;
  /** Asks the person at the terminal, who answers with a line; undefined if there is none. */
  readonly question?: ((text: string) => Promise<string>) | undefined;
  /** Waits between two polls, for milliseconds. */
  readonly pause: (ms: number) => Promise<void>;
}

/** The real process. */
export const realHost = (): Host => ({
  out: writer(process.stdout),
  unread: () => isClosed,
  err: writer(process.stderr),
  stdin: readStdin,
  env: process.env,
  hostname: hostname(),
  colour: process.stdout.isTTY === true && !process.env["NO_COLOR"],
  question: process.stdin.isTTY === true && process.stdout.isTTY === true ? question : undefined,
  pause: ms => setTimeout(ms),
});

async function question(text: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return await lines.question(text);
  } finally {
    lines.close();
  }
}

/** Whether the reader of standard output has closed it. */
let isClosed = false;

/** A reader that has closed the pipe, such as `head`, is not a failure. Output lost for another reason, such as a full disk, is. */
function writer(stream: NodeJS.WriteStream): (text: string) => void {
  const failed = (error: unknown): void => {
    const code = errnoOf(error) ?? String(error);
    if (code === "EPIPE") {
      isClosed ||= stream === process.stdout;
      return;
    }
    if (stream === process.stderr) process.exit(1);
    process.stderr.write(`csimux: the output cannot be written (${code})\n`, () => process.exit(1));
  };
  let listening = false;
  return text => {
    if (!listening) stream.on("error", failed);
    listening = true;
    try {
      stream.write(text);
    } catch (error) {
      failed(error);
    }
  };
}

async function readStdin(mostBytes = Number.POSITIVE_INFINITY): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of process.stdin) {
    chunks.push(Buffer.from(chunk));
    bytes += chunk.length;
    if (bytes >= mostBytes) break;
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Resolves what a configuration refers to: environment variables, and small files named by `…File` keys. */
export const valueResolver = (env: Readonly<Record<string, string | undefined>>): ValueResolver => ({
  env: name => env[name],
  file: path => {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return undefined;
    }
  },
});

/** The beginning of the path of the program inside a compiled executable. */
export const compiledProgram = "/$bunfs/";

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The environment of external tools: where programs are, and nothing that may hold a secret. */
export const toolEnvironment = (
  env: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> => ({ PATH: env["PATH"] || defaultPath, HOME: env["HOME"] || "/root" });

/**
 * The folder of connection files that a main file names; undefined if it does not exist on this machine. A relative path
 * is resolved from the working folder, as by `serve`, then from the main file's folder.
 */
export function connectionFolder(folder: string, mainFile: string): string | undefined {
  const candidates = isAbsolute(folder) ? [folder] : [join(folder), join(dirname(mainFile), folder)];
  return candidates.find(isFolder);
}

/** Whether a folder, or a link to one, exists at this path. */
export const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
