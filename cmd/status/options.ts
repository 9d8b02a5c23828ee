import { UsageError } from "../terminal/terminal.ts";

/** The flags of `status`, under commander's names. */
export interface StatusFlags {
  readonly endpoint?: string;
  readonly statusSocket?: string;
  readonly output: string;
  readonly watch?: string | true;
  readonly timeout: string;
  readonly bundle?: string;
}

/** The validated command line of `status`. */
export interface StatusOptions {
  /** A status socket, or the CSI socket next to it. */
  readonly from: { readonly socket: string } | { readonly endpoint: string };
  readonly output: "text" | "json" | "yaml";
  /** The interval in milliseconds; undefined: show the status once. */
  readonly everyMs: number | undefined;
  readonly timeoutMs: number;
  /** The file for a bug report instead of the status; "-": standard output. */
  readonly bundle: string | undefined;
}

/** The default endpoint of csimux serve. */
const usualEndpoint = "unix:///csi/csi.sock";

/** Validates the flags. Throws UsageError. */
export function statusOptions(flags: StatusFlags, env: Readonly<Record<string, string | undefined>>): StatusOptions {
  const { endpoint, statusSocket, output, watch, bundle } = flags;
  if (output !== "text" && output !== "json" && output !== "yaml")
    throw new UsageError(`--output must be text, json or yaml, not "${output}"`);
  if (statusSocket === "") throw new UsageError("--status-socket is empty");
  if (bundle === "") throw new UsageError("--bundle needs the name of a new file, or - for standard output");
  if (bundle !== undefined && watch !== undefined) throw new UsageError("--bundle and --watch are mutually exclusive");
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
  throw new UsageError(`${flag} must be a number of seconds above 0, not "${text}"`);
}
