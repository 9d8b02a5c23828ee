import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { spawned } from "../spawned.ts";

/** The Debian release in the guest. */
export const suite = "bookworm";

/** The addresses of Debian's archives. */
export interface Mirror {
  readonly main: string;
  readonly security: string;
}

const debian: Mirror = { main: "http://deb.debian.org/debian/", security: "http://deb.debian.org/debian-security/" };

/** The addresses that this host's apt uses for Debian's archives, otherwise Debian's. */
export async function findMirror(): Promise<Mirror> {
  const format = "$(ORIGIN)|$(LABEL)|$(REPO_URI)";
  const { stdout } = await spawned(["apt-get", "indextargets", "--format", format, "Created-By: Packages"]);
  const known = stdout.split("\n").map(line => line.split("|"));
  const address = (label: string) => known.find(([origin, name]) => origin === "Debian" && name === label)?.[2];
  return {
    main: process.env["LAB_MIRROR"] || (address("Debian") ?? debian.main),
    security: process.env["LAB_SECURITY_MIRROR"] || (address("Debian-Security") ?? debian.security),
  };
}

/** Configures apt in a new root for the mirror, with the host's proxy settings, and with contrib for ZFS. */
export async function useMirror(root: string, mirror: Mirror): Promise<void> {
  const sources = [
    `deb ${mirror.main} ${suite} main contrib`,
    `deb ${mirror.main} ${suite}-updates main contrib`,
    `deb ${mirror.security} ${suite}-security main contrib`,
  ];
  await writeFile(join(root, "etc/apt/sources.list"), `${sources.join("\n")}\n`);
  const { stdout } = await spawned(["apt-config", "dump"]);
  const reach = stdout.split("\n").filter(line => /^Acquire::(https?|Check|Retries)/.test(line));
  await writeFile(join(root, "etc/apt/apt.conf.d/00host"), `${reach.join("\n")}\n`);
  for (const file of ["resolv.conf", "hosts"])
    await writeFile(join(root, "etc", file), await readFile(`/etc/${file}`, "utf8"));
}
