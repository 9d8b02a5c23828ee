import { defaults } from "../serve/options.ts";
import { milliseconds, UsageError } from "../terminal/terminal.ts";

/** The flags of `status`, under commander's names. */
export interface StatusFlags {
  readonly endpoint?: string;
  readonly statusSocket?: string;
  readonly output: string;
  readonly watch?: string | true;
  readonly timeout?: string;
  readonly bundle?: string;
  readonly html?: string;
  readonly cluster?: string;
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
  /** The file for a page instead of the status; "-": standard output. */
  readonly html: string | undefined;
  /** A file with the cluster's nodes and PersistentVolumes, for the page; "-": standard input. */
  readonly cluster: string | undefined;
}

/** Validates the flags. Throws UsageError. */
export function statusOptions(flags: StatusFlags, env: Readonly<Record<string, string | undefined>>): StatusOptions {
  const { endpoint, statusSocket, output, watch, bundle, html, cluster } = flags;
  if (output !== "text" && output !== "json" && output !== "yaml")
    throw new UsageError(`--output must be text, json or yaml, not "${output}"`);
  if (statusSocket === "") throw new UsageError("--status-socket is empty");
  if (bundle === "") throw new UsageError("--bundle needs the name of a new file, or - for standard output");
  if (html === "") throw new UsageError("--html needs the name of a file, or - for standard output");
  if ([bundle, watch, html].filter(each => each !== undefined).length > 1)
    throw new UsageError("--bundle, --html and --watch are mutually exclusive");
  if (cluster !== undefined && html === undefined) throw new UsageError("--cluster requires --html");
  const from =
    statusSocket === undefined
      ? { endpoint: endpoint ?? (env["CSI_ENDPOINT"] || defaults.endpoint) }
      : { socket: statusSocket };
  const everyMs = watch === undefined ? undefined : milliseconds("--watch", watch === true ? "2" : watch);
  // For a page, the process lists the volumes of all storage systems first.
  const timeoutMs = milliseconds("--timeout", flags.timeout ?? (html === undefined ? "10" : "60"));
  return { from, output, everyMs, timeoutMs, bundle, html, cluster };
}
