import type { Finding } from "../../health/finding.ts";

/** What the kernel shows of the ways to one disk. */
export interface PathStates {
  /** Name of the target or subsystem. */
  readonly target: string;
  /** Sessions or connections that are up, and how many there should be. */
  readonly up: number;
  readonly wanted: number;
  /** Disks that the kernel has for the volume, one for each way or one for all, and how many of them it can use. */
  readonly disks: number;
  readonly running: number;
}

/** What is wrong with the ways to a disk. Pure. */
export function pathFindings({ target, up, wanted, disks, running }: PathStates): readonly Finding[] {
  const findings: Finding[] = [];
  if (disks === 0)
    findings.push({ reason: "DeviceGone", message: `the kernel has no disk of ${target} for the volume` });
  if (up === 0) return [...findings, { reason: "SessionDown", message: `none of the ways to ${target} is up` }];
  if (disks > 0 && running === 0)
    return [{ reason: "NotAnswering", message: `the kernel has taken the disk of ${target} out of service` }];
  if (disks > 0 && (up < wanted || running < disks))
    findings.push({ reason: "PathsLost", message: `${Math.min(up, wanted)} of ${wanted} ways to ${target} are up` });
  return findings;
}
