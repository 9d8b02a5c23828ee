import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import { deviceNumber } from "../../../lib/node/disks/block-device.ts";
import {
  DiskFilesystems,
  type DiskSettings,
  type Disks,
  type PrepareRequest,
} from "../../../lib/node/disks/disk-filesystems.ts";
import { isHostRoot } from "../../root.ts";
import { pause } from "../../waiting.ts";
import { local } from "../lab.ts";

/** Whether this machine has loop devices; the tests that need them are skipped visibly without them. */
export const hasLoops = isHostRoot && spawnSync("losetup", ["--find"]).status === 0;
if (!hasLoops) process.stderr.write("\n*** NOT RUN: tests of disks need root and loop devices ***\n\n");

export const hasProgram = (name: string): boolean =>
  Bun.which(name, { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" }) !== null;

export const sh = (script: string, ...words: string[]): string =>
  execFileSync("bash", ["-euc", script, "bash", ...words], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

export const noSettings: DiskSettings = { check: {}, format: {} };

/** The smallest size that each tool accepts, in MiB. */
export const leastFor = (type: string): number => ({ xfs: 320, btrfs: 128 })[type] ?? 64;

/** Growing ext4 requires a capability that containers of a build machine may lack (capabilities(7)). */
export const mayResize =
  (BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "0"}`) >> 24n) & 1n;

/** A script for a superblock of Linux RAID 0.90 at the end of the disk $1 (md(4)). */
export const endsAsArray =
  'printf "\\374\\116\\053\\251" | dd of="$1" bs=1 seek=$(($(blockdev --getsize64 "$1") - 65536)) conv=notrunc 2>&1';

/** A disk of this many MiB: a file behind a loop device; `close` removes it. */
export class Disk {
  readonly folder: string;
  readonly file: string;
  readonly path: string;

  /** `above` is the folder of the file. */
  constructor(mebibytes = 64, { partitions = false, above = tmpdir() } = {}) {
    this.folder = mkdtempSync(join(above, "csimux-disk-"));
    this.file = join(this.folder, "image");
    writeFileSync(this.file, "");
    truncateSync(this.file, mebibytes * 2 ** 20);
    this.path = sh('losetup -f --show "$@"', ...(partitions ? ["-P"] : []), this.file).trim();
  }

  get device() {
    const { rdev } = statSync(this.path);
    const number = deviceNumber(rdev);
    const proof = { [`dev/block/${number}/loop/backing_file`]: this.file };
    return { kind: "device" as const, path: this.path, number, identity: this.file, proof };
  }

  /** The DiskFilesystems of a node that keeps its records next to the disk. */
  filesystems(runner: CommandRunner = local, settings: DiskSettings = noSettings, records = "formats") {
    return new DiskFilesystems({ runner, sys: "/sys", folder: join(this.folder, records), settings });
  }

  wanted(more: Partial<PrepareRequest> = {}): PrepareRequest {
    return { volumeId: "volume", fsType: undefined, readonly: false, ...more };
  }

  /** A hash of all bytes of the disk and of the file's modification time. */
  hash(): string {
    sh('blockdev --flushbufs "$1"; sync "$2"', this.path, this.file);
    return createHash("sha256").update(readFileSync(this.file)).digest("hex");
  }

  grow(mebibytes: number): void {
    truncateSync(this.file, mebibytes * 2 ** 20);
    sh('losetup -c "$1"', this.path);
  }

  mount(type: string, options: readonly string[]): string {
    const at = join(this.folder, "mount");
    sh('mkdir -p "$1"; mount -t "$2" -o "$3" "$4" "$1"', at, type, ["defaults", ...options].join(), this.path);
    return at;
  }

  /** Unmounts the disk and waits until nothing uses it: mount namespaces that other tests make copy its mount. */
  unmount(): void {
    sh('umount "$1"', join(this.folder, "mount"));
    const end = Date.now() + 20_000;
    while (this.#isHeld() && Date.now() < end) spawnSync("sleep", ["0.05"]);
  }

  #isHeld(): boolean {
    try {
      closeSync(openSync(this.path, constants.O_RDONLY | constants.O_EXCL));
      return false;
    } catch {
      return true;
    }
  }

  close(): void {
    spawnSync("umount", [join(this.folder, "mount")]);
    // By its file: a device that the kernel has released may be another process's by now.
    const { stdout } = spawnSync("losetup", ["--noheadings", "--output", "NAME", "-j", this.file], {
      encoding: "utf8",
    });
    for (const path of stdout.split("\n").filter(line => line !== "")) spawnSync("losetup", ["-d", path.trim()]);
    rmSync(this.folder, { recursive: true, force: true });
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * Lets a device file of a fake host lead to a disk in exclusive use, as the kernel keeps what is mounted or what another device is built
 * on; returns the end of it.
 */
export function held({ root }: { readonly root: string }, name: string, disk: Disk): () => void {
  rmSync(join(root, "dev", name), { force: true });
  symlinkSync(disk.path, join(root, "dev", name));
  const file = openSync(disk.path, constants.O_RDONLY | constants.O_EXCL);
  return () => closeSync(file);
}

/** What a node does with disks, some of it in another way. */
export const changed = (disks: Disks, own: Partial<Disks>): Disks => ({
  hold: (...words) => disks.hold(...words),
  prepare: (...words) => disks.prepare(...words),
  grow: (...words) => disks.grow(...words),
  protect: (...words) => disks.protect(...words),
  isGone: (...words) => disks.isGone(...words),
  bytes: (...words) => disks.bytes(...words),
  ...own,
});

/** Creates the device files of this many partitions if they are missing. */
export function nodesOf(path: string, count: number): Disposable {
  const made = sh(
    'for p in $(seq -f "$1p%.0f" "$2"); do [ -e "$p" ] || { mknod "$p" b $(tr : " " <"/sys/class/block/${p##*/}/dev"); echo "$p"; }; done',
    path,
    `${count}`,
  );
  return { [Symbol.dispose]: () => sh("rm -f -- $1", made) };
}

/** Stages again, as the kubelet does, while a mount namespace that another test makes has a copy of what was unmounted. */
export async function unused<T>(stage: () => Promise<T>): Promise<T> {
  for (const end = Date.now() + 20_000; ; await pause(50)) {
    const answer = await stage();
    if (!/^unavailable: .*end all pods that use it/.test(String(answer)) || Date.now() > end) return answer;
  }
}
