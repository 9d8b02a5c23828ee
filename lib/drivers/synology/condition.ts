import type { Finding } from "../../health/finding.ts";

/** A volume of DSM, such as /volume1. */
export interface DsmVolume {
  /** Free bytes. */
  readonly free: bigint;
  /** In the words of DSM's storage manager; empty where it does not tell. */
  readonly status: string;
}

/** What the state of the volume of DSM says of all that is on it. */
export function dsmFindings(location: string, { free, status }: DsmVolume): readonly Finding[] {
  const says = `DSM says that ${location} is "${status}"`;
  if (/crash/i.test(status)) return [{ reason: "PoolFaulted", message: says }];
  const full: readonly Finding[] =
    free > 0n ? [] : [{ reason: "StorageFull", message: `nothing is free on ${location}` }];
  if (/read_?only/i.test(status)) return [...full, { reason: "StorageReadOnly", message: says }];
  return /degrade/i.test(status) ? [...full, { reason: "PoolDegraded", message: says }] : full;
}
