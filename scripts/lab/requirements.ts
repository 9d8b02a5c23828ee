import { access, constants } from "node:fs/promises";
import { join } from "node:path";

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

async function onPath(program: string): Promise<boolean> {
  for (const folder of (process.env["PATH"] ?? "").split(":"))
    if (
      await access(join(folder, program), constants.X_OK).then(
        () => true,
        () => false,
      )
    )
      return true;
  return false;
}

async function missing(programs: Readonly<Record<string, string>>): Promise<string | undefined> {
  const packages = new Set<string>();
  for (const [program, name] of Object.entries(programs)) if (!(await onPath(program))) packages.add(name);
  return packages.size === 0 ? undefined : `missing here: ${[...packages].join(" ")} (Debian packages)`;
}

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
