import { installMissing, missingPackages, type Packages } from "../packages.ts";

/** Programs of the host and the Debian package that has each. */
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
  return packages.length === 0 ? undefined : `missing here: ${packages.join(" ")} (Debian packages)`;
}

/** Installs what a guest needs, and with `image` what the making of its image needs, where this process is root and has apt. */
export const installRequirements = (image: boolean): Promise<void> => installMissing(image ? building : running);

/** Why no guest can be started on this machine; undefined when it can. */
export const whyNotRun = async (): Promise<string | undefined> =>
  process.arch === "x64" && process.platform === "linux"
    ? missing(running)
    : `the lab is an x86-64 machine on Linux, and this is ${process.platform} on ${process.arch}`;

/** Why no image can be built on this machine; undefined when it can. */
export async function whyNotBuild(): Promise<string | undefined> {
  if (process.getuid?.() !== 0)
    return "building the lab's image needs root (debootstrap, chroot); starting it does not";
  return (await whyNotRun()) ?? missing(building);
}
