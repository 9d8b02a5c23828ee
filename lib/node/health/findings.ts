// lib/node/health: problems and usage of volumes on this node. findings.ts detects problems of a mount and of paths,
// monitor.ts checks all volumes and storage systems at an interval, usage.ts answers NodeGetVolumeStats. Nothing is
// repaired here.

import { lstat, readFile, realpath } from "node:fs/promises";
import { basename } from "node:path";
import { CsiError, errnoOf } from "../../core/errors.ts";
import { isLocalName, type Mount } from "../../core/mountinfo.ts";
import type { Finding } from "../../health/finding.ts";
import type { Disks } from "../disks/disk-filesystems.ts";
import { bounded } from "../mount/files.ts";
import type { Mounts } from "../mount/mounts.ts";
import type { StageRecord } from "../state/stage-records.ts";

/** The errors of a failed file system: the kernel has shut it down, or cannot read its disk (errno(3)). */
const failed: ReadonlySet<string> = new Set(["EIO", "ENXIO", "ENODEV", "EUCLEAN"]);

/** Time limit for a local disk to answer, in milliseconds. */
const localMs = 5_000;

/** The problems of a mount; checks whether it answers. Throws errors that say nothing about the volume. */
export async function mountFindings(
  mount: Mount,
  record: StageRecord | undefined,
  mounts: Mounts,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  if (record?.kind === "block") return [];
  const fixed = mountTableFindings(mount, record);
  const answer = isLocalName(mount.fsType)
    ? await localFindings(mount, signal)
    : await serverFindings(mount, mounts, signal);
  return [...fixed, ...(await ext4Findings(mount)), ...answer];
}

/** The problems that the mount table shows. */
export function mountTableFindings(mount: Mount, record: StageRecord | undefined): readonly Finding[] {
  const findings: Finding[] = [];
  if (mount.root.endsWith("//deleted"))
    findings.push({ reason: "FolderRemoved", message: `the folder mounted at ${mount.at} was removed` });
  // ext4 does this after an error (ext4(5), errors=remount-ro), as do btrfs and others.
  if (mount.readOnly && record && record.kind !== "block" && !record.flags.includes("ro"))
    findings.push({ reason: "ReadOnlyFileSystem", message: `the file system at ${mount.at} has become read-only` });
  return findings;
}

/** The finding for a failed measurement; undefined for an error that says nothing about the volume. */
export function failureFinding({ code, message }: CsiError, mount: Mount | undefined): Finding | undefined {
  if (code === "deadline-exceeded") return { reason: "NotAnswering", message };
  if (code !== "unavailable") return undefined;
  if (/Stale file handle|Transport endpoint is not connected|ESTALE|ENOTCONN/.test(message))
    return { reason: "StaleHandle", message };
  if (/Host is down|No route to host|timed out/.test(message)) return { reason: "NotAnswering", message };
  const isBroken = mount && isLocalName(mount.fsType) && [...failed].some(name => message.endsWith(name));
  return isBroken ? { reason: "FileSystemFailed", message } : undefined;
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

/** Whether the volume is a disk that the kernel no longer has. */
export const hasLostDisk = async (record: StageRecord, disks: Pick<Disks, "isGone">): Promise<boolean> =>
  record.attached?.kind === "device" && (await disks.isGone(record.attached.mounted?.number ?? record.attached.number));

/** The finding for such a volume. */
export const lostDisk = ({ volumeId }: StageRecord): Finding => ({
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
