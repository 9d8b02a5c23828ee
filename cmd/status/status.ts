import { writeFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { CsiError, errnoOf, messageOf } from "../../lib/core/errors.ts";
import type { Status } from "../../lib/observe/status.ts";
import { askStatus, statusSocketOf } from "../../lib/observe/status-socket.ts";
import { csiSocketOf } from "../csi-socket.ts";
import type { Host } from "../host.ts";
import { textOf, UsageError } from "../terminal/terminal.ts";
import type { StatusOptions } from "./options.ts";
import { isHealthy } from "./problems.ts";
import { statusText } from "./text.ts";

/** Clears a terminal and moves to its first line (ECMA-48: CUP, ED). */
const clear = "\x1b[H\x1b[2J";

/**
 * Prints the status once, or at an interval until its reader has left. The exit code is 0, 1 if something is wrong (isHealthy), 2 if the process
 * cannot be reached.
 */
export async function showStatus(options: StatusOptions, host: Host): Promise<number> {
  const socket = socketOf(options);
  if (options.bundle !== undefined) return report(socket, options.bundle, options, host);
  if (options.html !== undefined) return page(socket, options.html, options, host);
  let code = await look(socket, options, host);
  while (options.everyMs !== undefined) {
    await pause(options.everyMs);
    if (host.unread?.()) break;
    code = await look(socket, options, host);
  }
  return code;
}

/** Writes a bug report. The exit code is 0, or 2 if the process cannot be reached or the file cannot be written. */
const report = (socket: string, file: string, { timeoutMs }: StatusOptions, host: Host): Promise<number> =>
  writing(file, host, async () => {
    const { details, ...status } = await askStatus(socket, timeoutMs);
    const { bundleText, writeBundle } = await import("./bundle.ts");
    const text = await bundleText(status, details, host);
    if (file === "-") host.out(text);
    else await writeBundle(file, text);
    return 0;
  });

/** Writes the page. The exit code is that of the status, or 2 if a file cannot be read or written. */
const page = (socket: string, file: string, { timeoutMs, cluster }: StatusOptions, host: Host): Promise<number> =>
  writing(file, host, async () => {
    const listed = cluster === undefined ? undefined : await textOf(cluster, host);
    const answer = await askStatus(socket, timeoutMs, "volumes");
    const { readNodesAndVolumes } = await import("../../lib/config/cluster.ts");
    const { pageText } = await import("../page/page.ts");
    const facts =
      cluster === undefined || listed === undefined ? undefined : readNodesAndVolumes(cluster, listed, answer.name);
    const text = pageText(answer, facts);
    if (file === "-") host.out(text);
    else await writeFile(file, text, { mode: 0o600 });
    return isHealthy(answer) ? 0 : 1;
  });

/** Runs `work`, which ends with writing `file`; failures of the process and of files are messages with the exit code 2. */
async function writing(file: string, host: Host, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    const code = errnoOf(error);
    if (error instanceof UsageError || (!(error instanceof CsiError) && code === undefined)) throw error;
    const why = code === undefined ? messageOf(error) : `cannot write ${file} (${code}); name a new file`;
    host.err(`csimux: ${why}\n`);
    return 2;
  }
}

async function look(socket: string, options: StatusOptions, host: Host): Promise<number> {
  // Only a terminal can be cleared; other outputs get one status after the other.
  const start = options.everyMs !== undefined && host.colour ? clear : "";
  try {
    const { details: _, ...status } = await askStatus(socket, options.timeoutMs);
    host.out(`${start}${await shown(status, options, host)}`);
    return isHealthy(status) ? 0 : 1;
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    host.err(`csimux: ${error.message}\n`);
    return 2;
  }
}

/**
 * JSON: one line per status if there are several; YAML: one document each, so that a reader of the stream can separate
 * them.
 */
async function shown(status: Status, { output, everyMs }: StatusOptions, host: Host): Promise<string> {
  if (output === "text") return statusText(status, host.colour);
  if (output === "json") return `${JSON.stringify(status, undefined, everyMs === undefined ? 2 : undefined)}\n`;
  const { yamlText } = await import("../../lib/yaml/print.ts");
  return `${everyMs === undefined ? "" : "---\n"}${yamlText(status)}`;
}

/** The path of the status socket. Throws UsageError for an endpoint without one. */
export function socketOf({ from }: Pick<StatusOptions, "from">): string {
  if ("socket" in from) return from.socket;
  return statusSocketOf(csiSocketOf(from.endpoint, "; give the status socket with --status-socket"));
}
