import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { spawned } from "./spawned.ts";

/** Programs by name, each with the Debian package that has it. */
export type Packages = Readonly<Record<string, string>>;

/** Lets this process and what it starts find Debian's administrative programs and Go, where the PATH of a user does not look. */
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

/** The packages of those programs that are not on PATH, each once. */
export const missingPackages = (programs: Packages): readonly string[] => [
  ...new Set(Object.entries(programs).flatMap(([program, name]) => (onPath(program) ? [] : [name]))),
];

/** Root of a user namespace (user_namespaces(7)) may not write into the folder of dpkg. */
const mayInstall = (): boolean =>
  process.getuid?.() === 0 &&
  onPath("apt-get") &&
  existsSync("/var/lib/dpkg") &&
  canUse("/var/lib/dpkg", constants.W_OK);

/** Packages of which the tests want a program alone, and the services that Debian starts with them. */
const services: Readonly<Record<string, readonly string[]>> = {
  "openssh-server": ["ssh.service", "ssh.socket"],
  prometheus: ["prometheus.service"],
};

/**
 * Installs what is missing of these programs where this process is root and has apt, and says so in one line. Services that come along
 * are switched off: nobody asked for a daemon on this machine. Never throws.
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
  // One after the other: an unknown unit keeps systemctl from the others. Without systemd nothing was started.
  if (onPath("systemctl")) for (const unit of units) await spawned(["systemctl", "disable", "--now", unit]);
}
