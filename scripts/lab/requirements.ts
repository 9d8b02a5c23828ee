import { installMissing, missingPackages, type Packages } from "../packages.ts";

/** Programs of the host with their Debian packages. */
const running = {
  "qemu-system-x86_64": "qemu-system-x86",
  "qemu-img": "qemu-utils",
  ssh: "openssh-client",
  setpriv: "util-linux",
  tar: "tar",
} as const;

const building = {
  ...running,
  debootstrap: "debootstrap",
  mke2fs: "e2fsprogs",
  "ssh-keygen": "openssh-client",
  unshare: "util-linux",
} as const;

function missing(programs: Packages): string | undefined {
  const packages = missingPackages(programs);
  return packages.length === 0 ? undefined : `missing Debian packages: ${packages.join(" ")}`;
}

/** Installs the programs for running a guest and, with `image`, for building its image, if this process is root and has apt. */
export const installRequirements = (image: boolean): Promise<void> => installMissing(image ? building : running);

/** Why this machine cannot start a guest; undefined if it can. */
export const whyNotRun = async (): Promise<string | undefined> =>
  process.arch === "x64" && process.platform === "linux"
    ? missing(running)
    : `the lab requires Linux on x86-64, not ${process.platform} on ${process.arch}`;

/** Why this machine cannot build an image; undefined if it can. */
export async function whyNotBuild(): Promise<string | undefined> {
  if (process.getuid?.() !== 0)
    return "building the lab's image requires root (debootstrap, chroot); starting it does not";
  return (await whyNotRun()) ?? missing(building);
}
