import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { missingPackages, onPath } from "../packages.ts";

/** Programs of the host with their Debian packages. */
const programs = {
  dockerd: "docker.io",
  docker: "docker.io",
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

/** What this machine lacks for a Nomad, one text each. `building`: including what compiling needs. */
export async function missing(building: boolean): Promise<readonly string[]> {
  if (process.platform !== "linux") return [`Nomad's machine requires Linux, not ${process.platform}`];
  const lacks = [];
  if (process.getuid?.() !== 0) lacks.push("root: the machine consists of namespaces, mounts and containers");
  const packages = missingPackages(programs);
  if (packages.length > 0) lacks.push(`Debian packages: ${packages.join(" ")}`);
  if (building && !onPath("go")) lacks.push("Go 1.26 or newer, on PATH");
  const kernel = await kernelLacks();
  if (kernel.length > 0) lacks.push(`kernel features: ${kernel.join(", ")}`);
  return lacks;
}
