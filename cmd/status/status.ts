import { setTimeout as pause } from "node:timers/promises";
import { CsiError } from "../../lib/core/errors.ts";
import { parseEndpoint } from "../../lib/csi/endpoint.ts";
import type { Status } from "../../lib/observe/status.ts";
import { askStatus, statusSocketOf } from "../../lib/observe/status-socket.ts";
import type { Host } from "../host.ts";
import { UsageError } from "../terminal/usage-error.ts";
import type { StatusOptions } from "./options.ts";
import { statusText } from "./text.ts";

/** Clears a terminal and goes to its first line (ECMA-48: CUP, ED). */
const clear = "\x1b[H\x1b[2J";

/** States in which nothing is to be done; a node knows no states. */
const fine: ReadonlySet<string> = new Set(["good", "unknown"]);

/** Prints the status once, or again and again. The exit code is 0, 1 when a connection is not in order, 2 when nobody could be asked. */
export async function showStatus(options: StatusOptions, host: Host): Promise<number> {
  const socket = socketOf(options);
  let code = await look(socket, options, host);
  while (options.everyMs !== undefined) {
    await pause(options.everyMs);
    code = await look(socket, options, host);
  }
  return code;
}

async function look(socket: string, options: StatusOptions, host: Host): Promise<number> {
  // Only a terminal can be wiped; whatever else gets one answer after the other.
  const start = options.everyMs !== undefined && host.colour ? clear : "";
  try {
    const status = await askStatus(socket, options.timeoutMs);
    host.out(`${start}${options.output === "json" ? jsonText(status, options) : statusText(status, host.colour)}`);
    return status.connections.every(({ state }) => fine.has(state)) ? 0 : 1;
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    host.err(`csimux: ${error.message}\n`);
    return 2;
  }
}

/** One line for each look, so that who reads a stream of them knows where one ends. */
const jsonText = (status: Status, { everyMs }: StatusOptions): string =>
  `${JSON.stringify(status, undefined, everyMs === undefined ? 2 : undefined)}\n`;

function socketOf({ from }: StatusOptions): string {
  if ("socket" in from) return from.socket;
  let endpoint: ReturnType<typeof parseEndpoint>;
  try {
    endpoint = parseEndpoint(from.endpoint);
  } catch (error) {
    if (error instanceof CsiError) throw new UsageError(error.message);
    throw error;
  }
  if (endpoint.kind === "unix") return statusSocketOf(endpoint.path);
  throw new UsageError(`${from.endpoint} is no socket; name that of the status with --status-socket`);
}
