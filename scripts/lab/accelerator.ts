import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import { spawned } from "../spawned.ts";
import type { Accelerator } from "./machine.ts";

/**
 * KVM only if it runs the image's kernel. The existence of /dev/kvm proves nothing: an emulated one opens, but
 * never gets past unpacking the kernel. Without a disk, the kernel panics because it has no root, which ends QEMU.
 */
export async function workingAccelerator(image: string): Promise<Accelerator> {
  const forced = process.env["LAB_ACCELERATOR"];
  if (forced === "kvm" || forced === "tcg") return forced;
  const device = await access("/dev/kvm", constants.R_OK | constants.W_OK).then(
    () => true,
    () => false,
  );
  if (!device) return "tcg";
  const { stdout } = await spawned(
    [
      ...(["qemu-system-x86_64", "-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "512"] as const),
      ...["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"],
      ...["-kernel", join(image, "vmlinuz"), "-append", "console=ttyS0 panic=-1"],
    ],
    { timeoutMs: 15_000 },
  );
  return stdout.includes("Unable to mount root fs") ? "kvm" : "tcg";
}
