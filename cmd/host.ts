import { hostname } from "node:os";

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

/** A reader that has gone away, such as `head`, is no reason to fail. */
function writer(stream: NodeJS.WriteStream): (text: string) => void {
  const unlessGone = (error: unknown): void => {
    if (!(error instanceof Error && "code" in error && error.code === "EPIPE")) throw error;
  };
  let listening = false;
  return text => {
    if (!listening) stream.on("error", unlessGone);
    listening = true;
    try {
      stream.write(text);
    } catch (error) {
      unlessGone(error);
    }
  };
}

async function readStdin(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString("utf8");
}
