import { UsageError } from "../terminal/usage-error.ts";

/** What the command line of `status` may hold, under commander's names. */
export interface StatusFlags {
  readonly endpoint?: string;
  readonly statusSocket?: string;
  readonly output: string;
  readonly watch?: string | true;
  readonly timeout: string;
  readonly bundle?: string;
}

/** The command line of `status`, checked. */
export interface StatusOptions {
  /** Whom to ask: a status socket, or the CSI socket that it lies beside. */
  readonly from: { readonly socket: string } | { readonly endpoint: string };
  readonly output: "text" | "json" | "yaml";
  /** Milliseconds between two looks; undefined: one look. */
  readonly everyMs: number | undefined;
  readonly timeoutMs: number;
  /** Where a report is written instead of showing the status; "-": to standard output. */
  readonly bundle: string | undefined;
}

/** Where csimux serve listens when nobody says anything else. */
const usualEndpoint = "unix:///csi/csi.sock";

/** Throws UsageError. */
export function statusOptions(flags: StatusFlags, env: Readonly<Record<string, string | undefined>>): StatusOptions {
  const { endpoint, statusSocket, output, watch, bundle } = flags;
  if (output !== "text" && output !== "json" && output !== "yaml")
    throw new UsageError(`--output is text, json or yaml, not "${output}"`);
  if (statusSocket === "") throw new UsageError("--status-socket is empty");
  if (bundle === "") throw new UsageError("--bundle names a new file, or - for standard output");
  if (bundle !== undefined && watch !== undefined) throw new UsageError("--bundle looks once; leave --watch out");
  const from =
    statusSocket === undefined
      ? { endpoint: endpoint ?? (env["CSI_ENDPOINT"] || usualEndpoint) }
      : { socket: statusSocket };
  const everyMs = watch === undefined ? undefined : milliseconds("--watch", watch === true ? "2" : watch);
  return { from, output, everyMs, timeoutMs: milliseconds("--timeout", flags.timeout), bundle };
}

function milliseconds(flag: string, text: string): number {
  const seconds = Number(text);
  if (seconds > 0 && seconds <= 86_400) return seconds * 1000;
  throw new UsageError(`${flag} is a number of seconds above 0, not "${text}"`);
}
