import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { inMachine } from "../../../scripts/cluster/machine.ts";
import { state } from "../../../scripts/cluster/place.ts";
import { data, dataOutside } from "../deploy.ts";

const fileOf = (type: string): string => join(state, `${type}.img`);

async function done(...argv: readonly [string, ...string[]]): Promise<void> {
  const { code, stderr } = await inMachine(argv);
  if (code !== 0) throw new Error(`${argv.join(" ")}: ${stderr.trim()}`);
}

/** Makes a file system of 512 MiB and mounts it where the folders of the connection of this name will be, before csimux is deployed. */
export async function mountFilesystem(type: "ext4" | "xfs"): Promise<void> {
  await mkdir(join(dataOutside, type), { recursive: true });
  await done("truncate", "--size=512M", fileOf(type));
  await done(`mkfs.${type}`, "-q", fileOf(type));
  await done("mount", "-o", "loop", fileOf(type), `${data}/${type}`);
  await done("rm", "-rf", `${data}/${type}/lost+found`);
}

/** Unmounts and removes it, after csimux is undeployed. */
export async function unmountFilesystem(type: "ext4" | "xfs"): Promise<void> {
  await done("umount", `${data}/${type}`);
  await rm(fileOf(type), { force: true });
}
