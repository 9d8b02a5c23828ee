import type { Finding } from "../../health/finding.ts";

/** The kernel's view of the paths to one disk. */
export interface PathStates {
  /** The name of the target or subsystem. */
  readonly target: string;
  /** The number of sessions or connections that are up, and the number expected. */
  readonly up: number;
  readonly wanted: number;
  /**
   * The number of disks that the kernel has for the volume, one per path or one for all, and the number that it can
   * use.
   */
  readonly disks: number;
  readonly running: number;
}

/** The problems of the paths to a disk. */
export function pathFindings({ target, up, wanted, disks, running }: PathStates): readonly Finding[] {
  const findings: Finding[] = [];
  if (disks === 0)
    findings.push({ reason: "DeviceGone", message: `the kernel has no disk of ${target} for the volume` });
  if (up === 0) return [...findings, { reason: "SessionDown", message: `none of the paths to ${target} is up` }];
  if (disks > 0 && running === 0)
    return [{ reason: "NotAnswering", message: `the kernel has taken the disk of ${target} out of service` }];
  if (disks > 0 && (up < wanted || running < disks))
    findings.push({ reason: "PathsLost", message: `${Math.min(up, wanted)} of ${wanted} paths to ${target} are up` });
  return findings;
}
