import type { Log } from "./call.ts";
import { loggable, withoutKnownSecrets } from "./secrets.ts";

/** Log levels in ascending order of severity. */
export const levels = ["debug", "info", "warn", "error"] as const;
/** The severity of a log line. */
export type Level = (typeof levels)[number];

/** One log record. */
export interface LogLine {
  readonly time: string;
  readonly level: Level;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A log that passes every line of level `least` or above to `write`. */
export function leveledLog(least: Level, write: (line: LogLine) => void): Log {
  return new LeveledLog(levels.indexOf(least), write, {});
}

class LeveledLog implements Log {
  readonly #from: number;
  readonly #write: (line: LogLine) => void;
  readonly #common: object;

  constructor(from: number, write: (line: LogLine) => void, common: object) {
    this.#from = from;
    this.#write = write;
    this.#common = common;
  }

  debug(message: string, fields?: object | (() => object)): void {
    if (this.#from === 0) this.#line("debug", message, typeof fields === "function" ? fields() : fields);
  }

  info(message: string, fields?: object): void {
    if (this.#from <= 1) this.#line("info", message, fields);
  }

  warn(message: string, fields?: object): void {
    if (this.#from <= 2) this.#line("warn", message, fields);
  }

  error(message: string, fields?: object): void {
    this.#line("error", message, fields);
  }

  with(fields: object): Log {
    return new LeveledLog(this.#from, this.#write, { ...this.#common, ...fields });
  }

  #line(level: Level, message: string, fields: object | undefined): void {
    this.#write({
      time: new Date().toISOString(),
      level,
      message: withoutKnownSecrets(message),
      fields: loggable({ ...this.#common, ...fields }) as LogLine["fields"],
    });
  }
}

/** The longest line in UTF-16 units, so that a request with a hundred thousand parameters does not write megabytes. */
const longestLine = 16 << 10;

/** For JSON.stringify, which has no bigints. */
const sizesAsText = (_: string, value: unknown): unknown => (typeof value === "bigint" ? String(value) : value);

/** One JSON object on one line. Bigints become strings; a line that is too long keeps only its beginning. */
export function jsonLine({ time, level, message, fields }: LogLine): string {
  const text = JSON.stringify({ time, level, message, ...fields }, sizesAsText);
  if (text.length <= longestLine) return text;
  const start = message.slice(0, longestLine / 4);
  return JSON.stringify({ time, level, message: start, cut: text.length, beginning: text.slice(0, longestLine / 4) });
}

/** One line for people: time of day, level, message, then the fields as key=value, bigints as text. Control characters are escaped. */
export function humanLine({ time, level, message, fields }: LogLine): string {
  const rest = Object.entries(fields).flatMap(([key, value]) =>
    value === undefined
      ? []
      : [`${key}=${typeof value === "string" ? plain(value) : JSON.stringify(value, sizesAsText)}`],
  );
  const line = [time.slice(11, 23), level.toUpperCase().padEnd(5), printable(message), ...rest].join(" ");
  return line.length <= longestLine ? line : `${line.slice(0, longestLine)}… (${line.length} characters)`;
}

/** Escapes control characters and line ends as JSON does; quotes stay unchanged. */
const printable = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that must not reach a terminal
  text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, character => {
    const escaped = JSON.stringify(character).slice(1, -1);
    return escaped === character ? `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}` : escaped;
  });

const plain = (value: string): string => (/^[\w./:@-]+$/.test(value) ? value : JSON.stringify(value));

/** The number of different lines remembered; the oldest are forgotten first. */
const most = 1_000;

/** Limits repeated log lines: the first is written, then one per interval with the number of those suppressed. */
export class RepeatedLines {
  readonly #everyMs: number;
  readonly #now: () => number;
  readonly #seen = new Map<string, { at: number; held: number }>();

  /** `now` returns milliseconds. */
  constructor(everyMs = 600_000, now: () => number = () => performance.now()) {
    this.#everyMs = everyMs;
    this.#now = now;
  }

  /** The number of equal lines suppressed since the last one; undefined if this one must be suppressed, too. */
  due(line: string): number | undefined {
    const now = this.#now();
    const seen = this.#seen.get(line);
    if (seen && now - seen.at < this.#everyMs) {
      seen.held++;
      return undefined;
    }
    this.#seen.delete(line);
    this.#seen.set(line, { at: now, held: 0 });
    const [oldest] = this.#seen.keys();
    if (this.#seen.size > most && oldest !== undefined) this.#seen.delete(oldest);
    return seen?.held ?? 0;
  }
}
