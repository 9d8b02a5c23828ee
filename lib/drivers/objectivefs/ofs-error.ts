import type { Code } from "../../core/errors.ts";
import type { ErrorMapping } from "../failure.ts";

/** Something that mount.objectivefs refused; the message is its own last line, or nothing. */
export class OfsError extends Error {
  override readonly name = "OfsError";
  readonly exitCode: number;
  constructor(exitCode: number, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** It ends with these codes of sysexits(3), sometimes without a word. */
const codes: Readonly<Record<number, ErrorMapping>> = {
  64: {
    code: "failed-precondition",
    text: "it refuses this with the licence it got; OBJECTIVEFS_LICENSE needs the admin key behind it",
  },
  65: { code: "failed-precondition", text: "it cannot decrypt with OBJECTIVEFS_PASSPHRASE" },
  78: { code: "failed-precondition", text: "OBJECTIVEFS_PASSPHRASE is missing or invalid" },
};

const words: readonly (readonly [RegExp, Code])[] = [
  [
    /access ?denied|forbidden|InvalidAccessKey|SignatureDoesNotMatch|not authorized|permission denied/i,
    "permission-denied",
  ],
  [
    /timed? ?out|refused|unreachable|could not resolve|no route|name or service|temporar|try again|slow ?down/i,
    "unavailable",
  ],
  [/licen[cs]e|passphrase|not (?:set|configured|found in environment)/i, "failed-precondition"],
];

/** What a refusal means to a caller; undefined for what is none. */
export function explainOfs(error: unknown): ErrorMapping | undefined {
  if (!(error instanceof OfsError)) return undefined;
  const { exitCode, message } = error;
  const known = codes[exitCode];
  const said = message === "" ? "" : `: ${message}`;
  if (known) return { code: known.code, text: `mount.objectivefs: ${known.text}${said}` };
  const code = words.find(([pattern]) => pattern.test(message))?.[1] ?? "internal";
  return { code, text: `mount.objectivefs ended with exit code ${exitCode}${said}` };
}
