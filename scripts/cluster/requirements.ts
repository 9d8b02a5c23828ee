import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { missingPackages, onPath, type Packages } from "../packages.ts";
import { librariesOf } from "../spawned.ts";

/** Programs of the host that every machine in namespaces needs, with their Debian packages. */
const common = {
  containerd: "containerd",
  runc: "runc",
  busybox: "busybox-static",
  ip: "iproute2",
  unshare: "util-linux",
  nsenter: "util-linux",
  mount: "mount",
  "dpkg-deb": "dpkg",
  tar: "tar",
} as const;

async function kernelLacks(): Promise<readonly string[]> {
  const filesystems = await readFile("/proc/filesystems", "utf8");
  const lacks = [];
  if (!/\toverlay$/m.test(filesystems)) lacks.push("overlayfs");
  if (!existsSync("/sys/fs/cgroup/pids/tasks") && !existsSync("/sys/fs/cgroup/cgroup.controllers"))
    lacks.push("cgroups below /sys/fs/cgroup");
  return lacks;
}

/** The program that images of tests consist of: without libraries, which they do not have. */
const staticShell = "/bin/busybox";

/** What this machine lacks for a machine in namespaces, one text each. `building`: including what compiling needs. */
export async function missing(more: Packages, building: boolean, shell = staticShell): Promise<readonly string[]> {
  if (process.platform !== "linux") return [`Linux: this is ${process.platform}`];
  const lacks = [];
  if (process.getuid?.() !== 0) lacks.push("root, who makes namespaces, mounts and containers");
  const packages = missingPackages({ ...more, ...common });
  if (packages.length > 0) lacks.push(`Debian packages: ${packages.join(" ")}`);
  else if ((await librariesOf(shell)).length > 0)
    lacks.push(
      `Debian package: busybox-static, instead of busybox: ${shell} loads libraries, which the images do not have`,
    );
  if (building && !onPath("go")) lacks.push("Go 1.26 or newer, on PATH");
  const kernel = await kernelLacks();
  if (kernel.length > 0) lacks.push(`kernel features: ${kernel.join(", ")}`);
  return lacks;
}

/** Throws for a machine that lacks something; the parameters are those of `missing`. */
export async function requireAll(more: Packages, building: boolean): Promise<void> {
  const lacks = await missing(more, building);
  if (lacks.length > 0) throw new Error(`this machine lacks:\n  ${lacks.join("\n  ")}`);
}
