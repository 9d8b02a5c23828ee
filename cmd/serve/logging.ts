import { writeSync } from "node:fs";
import type { Log } from "../../lib/core/call.ts";
import { detailOf, errnoOf } from "../../lib/core/errors.ts";
import { humanLine, jsonLine, type LogLine, leveledLog } from "../../lib/core/log.ts";
import type { ServeOptions } from "./options.ts";

/** The number of log lines kept in memory for bug reports, and the length kept of each. */
const mostKept = 200;
const longestKept = 2_000;

/** The log of the daemon on stderr: JSON lines, or text on a terminal. Lines of one tick are written at once. */
export function openLog(options: Pick<ServeOptions, "logLevel" | "logFormat">): {
  readonly log: Log;
  readonly flush: () => void;
  /** The last lines, the oldest first. */
  readonly recent: () => readonly string[];
  /** The number of lines of level "error", each of which is a defect. */
  readonly errors: () => number;
} {
  const format = (options.logFormat ?? (process.stderr.isTTY ? "text" : "json")) === "json" ? jsonLine : humanLine;
  let waiting: string[] = [];
  const flush = () => {
    if (waiting.length === 0) return;
    const text = `${waiting.join("\n")}\n`;
    waiting = [];
    writeAll(text);
  };
  const recent: string[] = [];
  let errors = 0;
  const write = (line: LogLine) => {
    const text = format(line);
    if (line.level === "error") errors++;
    if (waiting.push(text) === 1) setImmediate(flush);
    if (recent.push(text.slice(0, longestKept)) > mostKept) recent.shift();
  };
  return { log: leveledLog(options.logLevel, write), flush, recent: () => recent, errors: () => errors };
}

/**
 * Handles uncaught failures. An unhandled rejection has ended only its own work, so it is logged and counted, and the
 * process continues. An exception in an event handler interrupts work that other code relies on, so it is logged and
 * ends the process with exit code 1: every operation can be interrupted at any step and retried.
 */
export function catchDefects(log: Log, flush: () => void): void {
  process.on("unhandledRejection", reason => log.error("background work failed", { reason: detailOf(reason) }));
  process.on("uncaughtException", error => {
    log.error("stopped by an unexpected failure", { reason: detailOf(error) });
    flush();
    process.exit(1);
  });
}

/**
 * Writes log text. A log that cannot be written must never stop the service: a full pipe is retried a few times, then
 * abandoned.
 */
function writeAll(text: string): void {
  let rest = Buffer.from(text);
  for (let tries = 0; rest.length > 0 && tries < 100; tries++) {
    try {
      rest = rest.subarray(writeSync(2, rest));
    } catch (error) {
      if (errnoOf(error) !== "EAGAIN") return;
    }
  }
}
