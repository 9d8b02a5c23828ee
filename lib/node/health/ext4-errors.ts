import { readFile, realpath } from "node:fs/promises";
import { basename } from "node:path";
import type { Mount } from "../../core/mountinfo.ts";
import type { Finding } from "../../health/finding.ts";

/**
 * Reports errors that ext4 found since the last check of its disk (errors_count; Linux, ABI/testing/sysfs-fs-ext4).
 * Since Linux 6.12, and in the stable kernels with that change, a file system that stops accepting writes after an
 * error is not shown as read-only.
 */
export async function ext4Findings({ fsType, device, at }: Mount): Promise<readonly Finding[]> {
  if (fsType !== "ext4") return [];
  const disk = await realpath(`/sys/dev/block/${device}`).catch(() => "");
  const text = await readFile(`/sys/fs/ext4/${basename(disk)}/errors_count`, "utf8").catch(() => "");
  const count = Number(text.trim());
  if (!(count > 0)) return [];
  const message = `the file system at ${at} has found ${count} error(s) and may refuse writes`;
  return [{ reason: "FileSystemErrors", message }];
}
