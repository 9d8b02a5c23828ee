import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { spawned } from "./spawned.ts";

/** Programs by name, with their Debian packages. */
export type Packages = Readonly<Record<string, string>>;

/** Adds the folders of Debian's administrative programs and of Go to the PATH of this process. */
export function widenPath(): void {
  process.env["PATH"] = [process.env["PATH"], "/usr/sbin", "/sbin", "/usr/local/go/bin"]
    .filter(Boolean)
    .join(delimiter);
}

const canUse = (path: string, mode: number): boolean => {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
};

/** Whether a program is on PATH. */
export const onPath = (program: string): boolean =>
  (process.env["PATH"] ?? "").split(delimiter).some(folder => canUse(join(folder, program), constants.X_OK));

/** The packages of the programs that are not on PATH, each once. */
export const missingPackages = (programs: Packages): readonly string[] => [
  ...new Set(Object.entries(programs).flatMap(([program, name]) => (onPath(program) ? [] : [name]))),
];

/** Root of a user namespace (user_namespaces(7)) may not write into the folder of dpkg. */
const mayInstall = (): boolean =>
  process.getuid?.() === 0 &&
  onPath("apt-get") &&
  existsSync("/var/lib/dpkg") &&
  canUse("/var/lib/dpkg", constants.W_OK);

/** The services that Debian starts with these packages, of which the tests need only a program. */
const services: Readonly<Record<string, readonly string[]>> = {
  "openssh-server": ["ssh.service", "ssh.socket"],
  prometheus: ["prometheus.service"],
};

/**
 * Installs the missing ones of these programs if this process is root and has apt, and prints one line. Disables services that
 * come with them. Never throws.
 */
export async function installMissing(programs: Packages): Promise<void> {
  const packages = missingPackages(programs);
  if (packages.length === 0 || !mayInstall()) return;
  console.log(`installing with apt-get, for the tests: ${packages.join(" ")}`);
  const env = { DEBIAN_FRONTEND: "noninteractive" };
  const install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", ...packages] as const;
  for (const argv of [["apt-get", "update", "-qq"], install] as const) {
    const { code, stderr } = await spawned([...argv], { env, timeoutMs: 1_200_000 });
    if (code !== 0) return console.log(`${argv.slice(0, 2).join(" ")} failed: ${stderr.trim().split("\n").at(-1)}`);
  }
  const units = packages.flatMap(name => services[name] ?? []);
  // One at a time: an unknown unit makes systemctl ignore the others. Without systemd, nothing was started.
  if (onPath("systemctl")) for (const unit of units) await spawned(["systemctl", "disable", "--now", unit]);
}
