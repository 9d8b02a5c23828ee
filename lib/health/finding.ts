import type { Reason } from "./reasons.ts";

/** One thing that was found to be wrong; at most one for each reason of a subject. */
export interface Finding {
  readonly reason: Reason;
  /** For people: what was seen, and where. Without secrets. */
  readonly message: string;
}

/** What is wrong with volumes, by id; those of which nothing is known are absent. */
export type VolumeFindings = ReadonlyMap<string, readonly Finding[]>;

/** Several findings about volumes as one. */
export function joined(all: readonly VolumeFindings[]): VolumeFindings {
  const [first = new Map<string, readonly Finding[]>(), ...rest] = all;
  if (rest.length === 0) return first;
  const whole = new Map(first);
  for (const each of rest) for (const [id, found] of each) whole.set(id, [...(whole.get(id) ?? []), ...found]);
  return whole;
}

/** Findings of volumes, of which many have none. */
export const findingsOf = (all: Iterable<readonly [id: string, findings: readonly Finding[]]>): VolumeFindings =>
  new Map([...all].filter(([, findings]) => findings.length > 0));
