// lib/node/health: problems and usage of volumes on this node. findings.ts detects problems of a mount and of paths, and decides what pods
// can do with the mount, which staging and publishing ask as well; monitor.ts checks all volumes and storage systems at an interval, usage.ts answers NodeGetVolumeStats. Nothing is
// repaired here.

import { lstat, readFile, realpath } from "node:fs/promises";
import { basename } from "node:path";
import { CsiError, errnoOf } from "../../core/errors.ts";
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

/** What the checks of a mount use. */
interface FindingParts {
  readonly mounts: Mounts;
  readonly disks: Pick<Disks, "isGone">;
}

/** The problems of a mount; checks whether it answers. Throws errors that say nothing about the volume. */
export async function mountFindings(
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

/** What pods can do with a mount: everything, only read, nothing any more, or nothing while its server or disk does not answer. */
export type MountState = "fine" | "read-only" | "failed" | "silent";

/** The findings that decide, the worst ones first. */
const decisive: readonly (readonly [Reason, MountState])[] = [
  ["DeviceGone", "failed"],
  ["FolderRemoved", "failed"],
  ["FileSystemFailed", "failed"],
  ["StaleHandle", "failed"],
  ["NotAnswering", "silent"],
  ["ReadOnlyFileSystem", "read-only"],
];

/** What pods can do with a volume's mount according to mountFindings, and the error for one who wants more. */
export async function mountState(
  mount: Mount,
  record: StageRecord,
  parts: FindingParts,
  signal: AbortSignal,
): Promise<{ readonly state: MountState; readonly error: CsiError | undefined }> {
  const findings = await mountFindings(mount, record, parts, signal);
  for (const [reason, state] of decisive) {
    const finding = findings.find(each => each.reason === reason);
    if (finding) return { state, error: unusable(record, state, finding.message) };
  }
  return { state: "fine", error: undefined };
}

/** A retry of the kubelet succeeds when the pods have ended, because that unstages the volume. */
function unusable({ volumeId, kind }: StageRecord, state: MountState, message: string): CsiError {
  if (state === "silent") return new CsiError("unavailable", `volume "${volumeId}": ${message}`);
  const what = `the ${kind === "block" ? "disk" : "file system"} of volume "${volumeId}"`;
  const pods = "end all pods that use it on this node";
  return state === "failed"
    ? new CsiError("unavailable", `${what} has failed (${message}); ${pods}`)
    : new CsiError("failed-precondition", `${what} has become read-only after an error; ${pods}`);
}

/** The problems that the mount table and the record show. */
export function mountTableFindings(mount: Mount, record: StageRecord | undefined): readonly Finding[] {
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

/** Whether the volume is a disk that the kernel no longer has. A file system of one disk tells which one its mount is of. */
export async function hasLostDisk(
  { attached }: StageRecord,
  disks: Pick<Disks, "isGone">,
  mount?: Mount,
): Promise<boolean> {
  if (attached?.kind !== "device") return false;
  const recorded = attached.mounted?.number ?? attached.number;
  return await disks.isGone(mount && attached.mounted && !hasNoDevice(mount.device) ? mount.device : recorded);
}

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
