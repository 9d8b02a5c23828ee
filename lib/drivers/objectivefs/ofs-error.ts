import type { Code } from "../../core/errors.ts";
import type { ErrorMapping } from "../failure.ts";

/** A failure of mount.objectivefs; the message is its last line of output, which may be empty. */
export class OfsError extends Error {
  override readonly name = "OfsError";
  readonly exitCode: number;
  constructor(exitCode: number, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Its exit codes from sysexits(3), sometimes without any output. */
const codes: Readonly<Record<number, ErrorMapping>> = {
  64: {
    code: "failed-precondition",
    text: "the licence does not allow this; OBJECTIVEFS_LICENSE must end with the admin key",
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

/** The meaning of an OfsError; undefined for any other error. */
export function explainOfs(error: unknown): ErrorMapping | undefined {
  if (!(error instanceof OfsError)) return undefined;
  const { exitCode, message } = error;
  const known = codes[exitCode];
  const reason = message === "" ? "" : `: ${message}`;
  if (known) return { code: known.code, text: `mount.objectivefs: ${known.text}${reason}` };
  const code = words.find(([pattern]) => pattern.test(message))?.[1] ?? "internal";
  return { code, text: `mount.objectivefs ended with exit code ${exitCode}${reason}` };
}
