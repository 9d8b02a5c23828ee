import { existsSync } from "node:fs";
import { chmod, copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { writeArchive } from "../image/archive.ts";
import { ownArchitecture as architecture } from "../image/executables.ts";
import { say } from "../say.ts";
import { librariesOf, spawned } from "../spawned.ts";
import { changedBlocksProgram, changedBlocksVersion, hasChangedBlocks } from "./changed-blocks.ts";
import { built, testImages, versions } from "./place.ts";
import { hasVolsync, moverScript, volsyncProgram, volsyncVersion } from "./volsync.ts";

/** The sidecars under their names in the manifests. */
export const sidecars = {
  "csi-provisioner": versions.provisioner,
  "csi-snapshotter": versions.snapshotter,
  "csi-resizer": versions.resizer,
  "csi-attacher": versions.attacher,
  "snapshot-controller": versions.snapshotter,
} as const;

/** The image of the tests' pods. */
export const shellImage = "cluster.test/busybox:1";

/** The image of a backup tool that lists changed blocks, with a shell. It exists where `hasChangedBlocks` is true. */
export const listerImage = `cluster.test/snapshot-metadata-lister:${changedBlocksVersion}`;

/** The image of the backup tool VolSync and of its pods. It exists where `hasVolsync` is true. */
export const volsyncImage = { repository: "cluster.test/volsync", tag: volsyncVersion } as const;

/** Holds the namespaces of a pod until it is terminated. */
const pause = ["/bin/busybox", "sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"];

type Fill = (folder: string) => Promise<void>;

async function image(file: string, names: readonly string[], config: Record<string, unknown>, fill: Fill) {
  const target = join(built.images, `${file}.oci.tar`);
  if (existsSync(target)) return;
  const folder = await mkdtemp(join(built.images, ".work-"));
  try {
    await chmod(folder, 0o755);
    await fill(folder);
    await writeArchive(target, names, [{ architecture, layers: [folder], config }]);
    say(`built the image ${names[0]}`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Debian's busybox with a link for each of its programs. */
export async function busybox(folder: string): Promise<void> {
  for (const name of ["bin", "etc", "tmp", "root"]) await mkdir(join(folder, name));
  await chmod(join(folder, "tmp"), 0o1777);
  await copyFile("/bin/busybox", join(folder, "bin/busybox"));
  const { stdout } = await spawned(["/bin/busybox", "--list"]);
  for (const name of stdout.split("\n"))
    if (name !== "" && name !== "busybox") await symlink("busybox", join(folder, "bin", name));
  await writeFile(join(folder, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n");
  await writeFile(join(folder, "etc/group"), "root:x:0:\n");
}

/** The program of Kubernetes' own tests for pods, with a shell. */
async function agnhost(folder: string): Promise<void> {
  await busybox(folder);
  await copyFile(join(built.programs, "agnhost"), join(folder, "agnhost"));
}

/** csi-snapshot-metadata under its name in the manifests, and its client. */
async function changedBlocks(): Promise<void> {
  const [name, lister] = ["csi-snapshot-metadata", "snapshot-metadata-lister"] as const;
  const versioned = `${name}:${changedBlocksVersion}`;
  const file = (each: string) => `${each}-${changedBlocksVersion}`;
  await image(file(name), [`registry.k8s.io/sig-storage/${versioned}`], { Entrypoint: [`/${name}`] }, folder =>
    copyFile(changedBlocksProgram(name), join(folder, name)),
  );
  await image(file(lister), [listerImage], { Env: ["PATH=/bin"], Cmd: ["sh"] }, async folder => {
    await busybox(folder);
    await copyFile(changedBlocksProgram(lister), join(folder, "bin", lister));
  });
}

/** Copies a program of this machine with the libraries that it loads. */
async function withLibraries(program: string, folder: string, to: string): Promise<void> {
  await rm(join(folder, to), { force: true });
  await copyFile(program, join(folder, to));
  for (const library of await librariesOf(program)) {
    await mkdir(dirname(join(folder, library)), { recursive: true });
    await copyFile(library, join(folder, library));
  }
}

/** VolSync's controller and what its image has for restic: the script wants bash, and coreutils' ls and date. */
async function volsync(): Promise<void> {
  const { repository, tag } = volsyncImage;
  await image(`volsync-${tag}`, [`${repository}:${tag}`], { Env: ["PATH=/bin"] }, async folder => {
    await busybox(folder);
    for (const name of ["bash", "ls", "date"]) await withLibraries(`/bin/${name}`, folder, `bin/${name}`);
    await copyFile(volsyncProgram("volsync"), join(folder, "manager"));
    await copyFile(volsyncProgram("restic"), join(folder, "bin/restic"));
    await mkdir(join(folder, "mover-restic"));
    await copyFile(moverScript, join(folder, "mover-restic/entry.sh"));
  });
}

/** Builds the missing images of the cluster, except csimux's, without a registry and without a container engine. */
export async function buildImages(): Promise<void> {
  await mkdir(built.images, { recursive: true });
  const path = ["PATH=/bin"];
  await image("pause", ["cluster.test/pause:1"], { Entrypoint: pause }, busybox);
  await image("busybox", [shellImage], { Env: path, Cmd: ["sh"] }, busybox);
  if (existsSync(join(built.programs, "agnhost"))) {
    const program = { Env: ["PATH=/bin:/"], Entrypoint: ["/agnhost"], Cmd: ["pause"] };
    await image("agnhost", [testImages.agnhost], program, agnhost);
    await image("external-shells", testImages.shells, { Env: path, Cmd: ["sh"] }, busybox);
  }
  for (const [name, version] of Object.entries(sidecars))
    await image(name, [`registry.k8s.io/sig-storage/${name}:${version}`], { Entrypoint: [`/${name}`] }, folder =>
      copyFile(join(built.programs, name), join(folder, name)),
    );
  if (hasChangedBlocks()) await changedBlocks();
  if (hasVolsync()) await volsync();
}
