const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] as const;

/** A number of bytes with at most three digits, such as "37.0 GiB". */
export function size(bytes: number | bigint): string {
  let value = Number(bytes);
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : 1;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

/** What has arrived, such as "37.0 GiB of 120 GiB". The total may be unknown (0), or an estimate that was too small. */
export const copied = (done: number | bigint, total: number | bigint): string =>
  total > 0 && total >= done ? `${size(done)} of ${size(total)}` : size(done);

/** How long the rest takes at this rate in bytes per second; undefined if nothing says so. */
export const timeLeft = (done: number | bigint, total: number | bigint, rate: number | bigint): string | undefined =>
  rate > 0 && total > done ? duration(Math.floor((Number(total) - Number(done)) / Number(rate))) : undefined;

/** A number of seconds in its largest unit, such as "12m". */
export function duration(given: number): string {
  const seconds = Math.max(0, given);
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7_200) return `${Math.floor(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3_600)}h` : `${Math.floor(seconds / 86_400)}d`;
}

/** The time between two RFC 3339 timestamps in its largest unit. */
export const age = (from: string, now: string): string =>
  duration(Math.round((Date.parse(now) - Date.parse(from)) / 1000));
