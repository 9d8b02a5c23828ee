import { readFileSync, statSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { errnoOf } from "../lib/core/errors.ts";
import type { ValueResolver } from "../lib/schema/value-resolver.ts";

/** The outside facts that a command sees; tests pass their own. */
export interface Host {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** All of standard input as text. */
  readonly stdin: () => Promise<string>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly hostname: string;
  /** Whether `out` may carry colours: a terminal, and NO_COLOR is not set (no-color.org). */
  readonly colour: boolean;
}

/** The real process. */
export const realHost = (): Host => ({
  out: writer(process.stdout),
  err: writer(process.stderr),
  stdin: readStdin,
  env: process.env,
  hostname: hostname(),
  colour: process.stdout.isTTY === true && !process.env["NO_COLOR"],
});

/** A reader that has closed the pipe, such as `head`, is not a failure. Output lost for another reason, such as a full disk, is. */
function writer(stream: NodeJS.WriteStream): (text: string) => void {
  const failed = (error: unknown): void => {
    const code = errnoOf(error) ?? String(error);
    if (code === "EPIPE") return;
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

async function readStdin(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString("utf8");
}

/** What the configuration may see of the machine: environment variables and small files named by `…File` keys. */
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

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The environment that external tools get: where programs are, and nothing that may hold a secret. */
export const toolEnvironment = (
  env: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> => ({
  PATH: env["PATH"] || defaultPath,
  HOME: env["HOME"] || "/root",
});

/**
 * The folder of connection files that a main file names, or undefined when it is not on this machine. A relative one is
 * looked for where the command runs, as `serve` does, then beside the main file.
 */
export function connectionFolder(folder: string, mainFile: string): string | undefined {
  const candidates = isAbsolute(folder) ? [folder] : [join(folder), join(dirname(mainFile), folder)];
  return candidates.find(isFolder);
}

/** Whether there is a folder of this name, or a link to one. */
export const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
