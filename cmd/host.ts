import { hostname } from "node:os";
import { errnoOf } from "../lib/core/errors.ts";

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

/** A reader that has gone away, such as `head`, is no reason to fail. Output lost to something else, a full disk say, is. */
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
