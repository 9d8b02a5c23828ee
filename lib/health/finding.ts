import type { Reason } from "./reasons.ts";

/** One problem found; at most one per reason and subject. */
export interface Finding {
  readonly reason: Reason;
  /** For people: what was observed, and where. Without secrets. */
  readonly message: string;
}

/** Findings by volume id; volumes without findings are absent. */
export type VolumeFindings = ReadonlyMap<string, readonly Finding[]>;

/** Merges findings about volumes; of one reason about a volume, the first one stays. */
export function joined(all: readonly VolumeFindings[]): VolumeFindings {
  const [first = new Map<string, readonly Finding[]>(), ...rest] = all;
  if (rest.length === 0) return first;
  const whole = new Map(first);
  for (const each of rest)
    for (const [id, found] of each) {
      const before = whole.get(id) ?? [];
      whole.set(id, [...before, ...found.filter(({ reason }) => !before.some(known => known.reason === reason))]);
    }
  return whole;
}

/** Findings by volume, without the volumes that have none. */
export const findingsOf = (all: Iterable<readonly [id: string, findings: readonly Finding[]]>): VolumeFindings =>
  new Map([...all].filter(([, findings]) => findings.length > 0));
