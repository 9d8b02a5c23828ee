import { existsSync } from "node:fs";
import { cp, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { say } from "../say.ts";
import type { Build } from "./build-log.ts";
import { findMirror, suite, useMirror } from "./mirror.ts";
import { cache, recipe } from "./place.ts";

/** Runs a script of the recipe inside a root folder, in mount and pid namespaces that end with it. */
async function inside(build: Build, root: string, script: string, ...args: readonly string[]): Promise<void> {
  await cp(join(recipe, script), join(root, "lab-script"));
  const enter =
    'root=$1; shift; mount -t proc proc "$root/proc"; mount -t sysfs sys "$root/sys"; mount --rbind /dev "$root/dev"; ' +
    'exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 ' +
    'DEBIAN_FRONTEND=noninteractive http_proxy="$http_proxy" https_proxy="$https_proxy" /bin/sh /lab-script "$@"';
  await build.run([
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "sh",
    "-ec",
    enter,
    "enter",
    root,
    ...args,
  ]);
  await rm(join(root, "lab-script"));
}

async function packages(): Promise<readonly string[]> {
  const lines = (await readFile(join(recipe, "packages"), "utf8")).split("\n");
  return lines.map(line => line.replace(/#.*/, "").trim()).filter(line => line !== "");
}

/** Installs Debian with the recipe's packages in a new folder. */
export async function makeRoot(build: Build, root: string): Promise<void> {
  const mirror = await findMirror();
  say(`base system from ${mirror.main}`);
  await build.run(["debootstrap", "--variant=minbase", suite, root, mirror.main]);
  await cp(join(recipe, "before"), root, { recursive: true });
  await useMirror(root, mirror);
  say("packages");
  await inside(build, root, "install.sh", ...(await packages()));
}

/** The version of the kernel in a root folder. */
export async function kernelOf(root: string): Promise<string> {
  const [kernel] = await readdir(join(root, "lib/modules"));
  if (kernel === undefined) throw new Error("no kernel was installed");
  return kernel;
}

async function compileZfs(build: Build, root: string, kernel: string, archive: string): Promise<void> {
  const side = `${root}.zfs`;
  await build.run(["cp", "-a", root, side]);
  await rm(join(side, "etc/dpkg/dpkg.cfg.d/lab"));
  await inside(build, side, "zfs-modules.sh", kernel);
  await build.run(["tar", "-C", side, "-cf", `${archive}.${process.pid}`, join("lib/modules", kernel, "updates")]);
  await rename(`${archive}.${process.pid}`, archive);
  await build.run(["rm", "-rf", side]);
}

/** Adds the ZFS modules. Debian has only their source; compiled ones are kept for the next image, because compiling is slow. */
export async function addZfs(build: Build, root: string): Promise<void> {
  const kernel = await kernelOf(root);
  const status = await readFile(join(root, "var/lib/dpkg/status"), "utf8");
  const version = /^Package: zfsutils-linux\n(?:.+\n)*?Version: (.+)$/m.exec(status)?.[1];
  if (version === undefined) throw new Error("zfsutils-linux was not installed");
  const archive = join(cache, `zfs-${kernel}-${version}.tar`);
  if (!existsSync(archive)) {
    say(`ZFS modules for ${kernel}`);
    await compileZfs(build, root, kernel, archive);
  } else say(`ZFS modules from ${basename(archive)}`);
  await build.run(["tar", "-C", root, "-xf", archive]);
}

/** Copies the recipe's files, creates users and enables services. `key` is the path of the private key that may log in. */
export async function configure(build: Build, root: string, key: string): Promise<void> {
  await cp(join(recipe, "files"), root, { recursive: true });
  await inside(build, root, "configure.sh", await kernelOf(root), (await readFile(`${key}.pub`, "utf8")).trim());
  // Tests in the guest also log in to it, as csimux logs in to a storage host.
  await writeFile(join(root, "root/.ssh/id_ed25519"), await readFile(key), { mode: 0o600 });
  await mkdir(join(root, "opt/csimux"), { recursive: true });
}
