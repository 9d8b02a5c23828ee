import { existsSync } from "node:fs";
import { chmod, copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { say } from "../say.ts";
import { spawned } from "../spawned.ts";
import { workingAccelerator } from "./accelerator.ts";
import { type Build, loggedBuild } from "./build-log.ts";
import { freeze } from "./freeze.ts";
import { withLock } from "./lock.ts";
import { removeOldImages } from "./old-images.ts";
import { cache, type Image, wantedImage } from "./place.ts";
import { whyNotBuild } from "./requirements.ts";
import { addZfs, configure, kernelOf, makeRoot } from "./root-folder.ts";

async function makeDisks(build: Build, image: Image, work: string): Promise<void> {
  const root = join(work, "root");
  await makeRoot(build, root);
  await addZfs(build, root);
  say("configuration and disks");
  await configure(build, root, image.key);
  const kernel = await kernelOf(root);
  await copyFile(join(root, "boot", `vmlinuz-${kernel}`), join(image.folder, "vmlinuz"));
  await copyFile(join(root, "boot", `initrd.img-${kernel}`), join(image.folder, "initrd.img"));
  await chmod(join(image.folder, "vmlinuz"), 0o644);
  const raw = join(work, "root.raw");
  await build.run(["mke2fs", "-q", "-t", "ext4", "-E", "root_owner=0:0,lazy_itable_init=0", "-d", root, raw, "8G"]);
  await build.run(["qemu-img", "convert", "-O", "qcow2", raw, join(image.folder, "root.qcow2")]);
  await build.run(["qemu-img", "create", "-q", "-f", "qcow2", join(image.folder, "pool.qcow2"), "16G"]);
}

async function makeImage(image: Image): Promise<void> {
  const from = Date.now();
  const work = join(cache, "work");
  await spawned(["rm", "-rf", work]);
  await mkdir(work);
  await mkdir(image.folder, { recursive: true });
  const build = loggedBuild(join(image.folder, "build.log"));
  try {
    await build.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "csimux-lab", "-f", image.key]);
    await makeDisks(build, image, work);
  } finally {
    await spawned(["rm", "-rf", work]);
  }
  const accelerator = await workingAccelerator(image.folder);
  await writeFile(join(image.folder, "accelerator"), accelerator);
  say(`disks made after ${Math.round((Date.now() - from) / 1000)} s; first boot (${accelerator})`);
  await freeze(image, accelerator);
  await writeFile(image.finished, "");
  say(`image finished after ${Math.round((Date.now() - from) / 1000)} s: ${image.folder}`);
}

/** The image of this checkout, built if it does not exist. Throws with the reason if this machine cannot build it. */
export async function buildImage(): Promise<Image> {
  const image = await wantedImage();
  if (existsSync(image.finished)) return image;
  const obstacle = await whyNotBuild();
  if (obstacle !== undefined) throw new Error(obstacle);
  await mkdir(cache, { recursive: true });
  await withLock(join(cache, "build.lock"), async () => {
    if (existsSync(image.finished)) return;
    await removeOldImages();
    await makeImage(image);
  });
  return image;
}

/** The accelerator with which the image's machine was frozen, and must run. */
export async function acceleratorOf(image: Image): Promise<"kvm" | "tcg"> {
  return (await readFile(join(image.folder, "accelerator"), "utf8")) === "kvm" ? "kvm" : "tcg";
}
