import type { Log } from "./call.ts";

export const levels = ["debug", "info", "warn", "error"] as const;
export type Level = (typeof levels)[number];

/** One log record, ready to be written. */
export interface LogLine {
  readonly time: string;
  readonly level: Level;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A log that hands every line of at least `least` to `write`. */
export function leveledLog(
  least: Level,
  write: (line: LogLine) => void,
  common: Readonly<Record<string, unknown>> = {},
): Log {
  const from = levels.indexOf(least);
  const at = (level: Level) => {
    if (levels.indexOf(level) < from) return () => {};
    return (message: string, fields?: object) =>
      write({ time: new Date().toISOString(), level, message, fields: { ...common, ...fields } });
  };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    with: fields => leveledLog(least, write, { ...common, ...fields }),
  };
}

/** One JSON object on one line. Values that JSON cannot hold become text. */
export const jsonLine = ({ time, level, message, fields }: LogLine): string =>
  JSON.stringify({ time, level, message, ...fields }, (_, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );

/** One line for people: time of day, level, message, then the fields as key=value. Control characters are escaped. */
export function humanLine({ time, level, message, fields }: LogLine): string {
  const rest = Object.entries(fields).map(
    ([key, value]) => `${key}=${typeof value === "string" ? plain(value) : JSON.stringify(value)}`,
  );
  return [time.slice(11, 23), level.toUpperCase().padEnd(5), JSON.stringify(message).slice(1, -1), ...rest].join(" ");
}

const plain = (value: string): string => (/^[\w./:@-]+$/.test(value) ? value : JSON.stringify(value));
