// lib/node/health: problems and usage of volumes on this node. findings.ts detects problems of paths and of a mount, for staging and
// publishing as well; monitor.ts checks all volumes and storage systems at an interval, usage.ts answers NodeGetVolumeStats. Nothing is
// repaired here.

import { lstat, readFile, realpath } from "node:fs/promises";
import { basename } from "node:path";
import { type Code, CsiError, errnoOf } from "../../core/errors.ts";
import { hasNoDevice, isLocalName, type Mount } from "../../core/mountinfo.ts";
import type { Finding } from "../../health/finding.ts";
import type { Reason } from "../../health/reasons.ts";
import type { Disks } from "../disks/disk-filesystems.ts";
import { bounded } from "../mount/files.ts";
import { removedSuffix } from "../mount/mount-table.ts";
import type { Mounts } from "../mount/mounts.ts";
import type { StageRecord } from "../state/stage-records.ts";

/** The errors of a failed file system: the kernel has shut it down, or cannot read its disk (errno(3)). */
const failed: ReadonlySet<string> = new Set(["EIO", "ENXIO", "ENODEV", "EUCLEAN"]);

/** Time limit for a local disk to answer, in milliseconds. */
const localMs = 5_000;

/** What a check of a mount uses. */
interface FindingParts {
  readonly mounts: Mounts;
  readonly disks: Pick<Disks, "isGone">;
}

async function mountFindings(
  mount: Mount,
  record: StageRecord | undefined,
  { mounts, disks }: FindingParts,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  if (record && (await hasLostDisk(record, disks, mount))) return [lostDisk(record)];
  const fixed = mountTableFindings(mount, record);
  // Neither the devtmpfs of a device file nor a file system that is known to have failed has more to say.
  if (record?.kind === "block" || mount.isShutDown) return fixed;
  const answer = isLocalName(mount.fsType)
    ? await localFindings(mount, signal)
    : await serverFindings(mount, mounts, signal);
  return [...fixed, ...(await ext4Findings(mount)), ...answer];
}

/** What a check of a mount shows. */
export interface CheckedMount {
  /** What pods can do with it: everything, only read, nothing any more, or nothing while its server or disk does not answer. */
  readonly state: "fine" | "read-only" | "failed" | "silent";
  /** The error for a pod that wants more. A retry succeeds when the pods have ended, because the kubelet stages the volume again then. */
  readonly error: CsiError | undefined;
  readonly findings: readonly Finding[];
}

/** Decides for staging, publishing and health checks what a mount is good for. Throws errors that say nothing about the volume. */
export async function checkMount(
  mount: Mount | undefined,
  record: StageRecord | undefined,
  parts: FindingParts,
  signal: AbortSignal,
): Promise<CheckedMount> {
  const findings = mount ? await mountFindings(mount, record, parts, signal) : [];
  const found = (...reasons: readonly Reason[]) => findings.find(({ reason }) => reasons.includes(reason));
  const owner = record ? `of volume "${record.volumeId}"` : `at ${mount?.at}`;
  const what = `the ${record?.kind === "block" ? "disk" : "file system"} ${owner}`;
  const checked = (state: CheckedMount["state"], code: Code, text: string) =>
    ({ state, error: new CsiError(code, `${what}${text}`), findings }) as const;
  const pods = "end all pods that use it on this node";
  const failure = found("DeviceGone", "FolderRemoved", "FileSystemFailed", "StaleHandle");
  if (failure) return checked("failed", "unavailable", ` has failed (${failure.message}); ${pods}`);
  const silence = found("NotAnswering");
  if (silence) return checked("silent", "unavailable", `: ${silence.message}`);
  if (found("ReadOnlyFileSystem"))
    return checked("read-only", "failed-precondition", ` has become read-only after an error; ${pods}`);
  return { state: "fine", error: undefined, findings };
}

/** The problems that the mount table and the record show. */
function mountTableFindings(mount: Mount, record: StageRecord | undefined): readonly Finding[] {
  const findings: Finding[] = [];
  // The device file of a lost disk is removed; a new disk's file may have the same name and number.
  if (mount.root.endsWith(removedSuffix))
    findings.push(
      record?.kind === "block"
        ? lostDisk(record)
        : { reason: "FolderRemoved", message: `the folder mounted at ${mount.at} was removed` },
    );
  if (mount.isShutDown)
    findings.push({ reason: "FileSystemFailed", message: `the kernel has shut down the file system at ${mount.at}` });
  // ext4 does this after an error (ext4(5), errors=remount-ro), as do btrfs and others.
  if (mount.readOnly && record && record.kind !== "block" && !record.flags.includes("ro"))
    findings.push({ reason: "ReadOnlyFileSystem", message: `the file system at ${mount.at} has become read-only` });
  if (record?.notGrown) findings.push({ reason: "NotGrown", message: record.notGrown });
  return findings;
}

async function serverFindings(mount: Mount, mounts: Mounts, signal: AbortSignal): Promise<readonly Finding[]> {
  const health = await mounts.health(mount, signal);
  if (health === "silent")
    return [
      { reason: "NotAnswering", message: `the server of ${mount.source}, mounted at ${mount.at}, does not answer` },
    ];
  if (health === "stale")
    return [
      {
        reason: "StaleHandle",
        message: `the server of ${mount.source} no longer knows the file system mounted at ${mount.at}`,
      },
    ];
  return [];
}

async function localFindings({ at }: Mount, signal: AbortSignal): Promise<readonly Finding[]> {
  const limit = AbortSignal.timeout(localMs);
  try {
    await bounded(lstat(at), `checking ${at}`, AbortSignal.any([signal, limit]));
    return [];
  } catch (error) {
    const errno = error instanceof CsiError ? errnoOf(error.cause) : undefined;
    if (errno !== undefined && failed.has(errno))
      return [{ reason: "FileSystemFailed", message: `the file system at ${at} fails with ${errno}` }];
    if (limit.aborted && !signal.aborted)
      return [{ reason: "NotAnswering", message: `the disk at ${at} does not answer` }];
    if (errno !== undefined) return [];
    throw error;
  }
}

/** Whether the volume is a disk that the kernel no longer has. A file system of one disk tells which one its mount is of. */
async function hasLostDisk({ attached }: StageRecord, disks: Pick<Disks, "isGone">, mount: Mount): Promise<boolean> {
  if (attached?.kind !== "device") return false;
  const recorded = attached.mounted?.number ?? attached.number;
  return await disks.isGone(attached.mounted && !hasNoDevice(mount.device) ? mount.device : recorded);
}

const lostDisk = ({ volumeId }: StageRecord): Finding => ({
  reason: "DeviceGone",
  message: `the disk of volume "${volumeId}" is gone from this node`,
});

/**
 * Reports errors that ext4 found since the last check of its disk (errors_count; Linux, ABI/testing/sysfs-fs-ext4).
 * Since Linux 6.12, and in the stable kernels with that change, a file system that stops accepting writes after an
 * error is not shown as read-only.
 */
async function ext4Findings({ fsType, device, at }: Mount): Promise<readonly Finding[]> {
  if (fsType !== "ext4") return [];
  const disk = await realpath(`/sys/dev/block/${device}`).catch(() => "");
  const text = await readFile(`/sys/fs/ext4/${basename(disk)}/errors_count`, "utf8").catch(() => "");
  const count = Number(text.trim());
  if (!(count > 0)) return [];
  const message = `the file system at ${at} has found ${count} error(s) and may refuse writes`;
  return [{ reason: "FileSystemErrors", message }];
}

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
