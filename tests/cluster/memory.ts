import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { below } from "../../scripts/check/below.ts";
import type { Resource } from "./kube.ts";

/** The memory of a pod's containers, in bytes. */
export interface Memory {
  readonly container: string;
  /** The working set as kubelet defines it: charged memory without file cache that the kernel can drop. */
  readonly workingSet: bigint;
  readonly anonymous: bigint;
}

const cgroups = "/sys/fs/cgroup/memory/csimux-cluster";

async function memoryOf(container: string, folder: string): Promise<Memory> {
  const stat = await readFile(join(folder, "memory.stat"), "utf8");
  const figure = (name: string): bigint => BigInt(new RegExp(`^${name} (\\d+)$`, "m").exec(stat)?.[1] ?? 0);
  const usage = BigInt((await readFile(join(folder, "memory.usage_in_bytes"), "utf8")).trim());
  return { container, workingSet: usage - figure("total_inactive_file"), anonymous: figure("total_rss") };
}

/** The memory of each container of a pod (cgroup v1). */
export async function memory({ status }: Resource): Promise<readonly Memory[]> {
  const all = below(cgroups).map(name => join(cgroups, name));
  const containers = status.containerStatuses as { name: string; containerID: string }[];
  return Promise.all(
    containers.map(({ name, containerID }) => {
      const folder = all.find(each => each.endsWith(`/${containerID.replace("containerd://", "")}`));
      if (folder === undefined) throw new Error(`${name} has no cgroup`);
      return memoryOf(name, folder);
    }),
  );
}
