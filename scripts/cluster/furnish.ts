import { join } from "node:path";
import { kubectl, nodeReady } from "./machine.ts";

/** Waits for the node of a cluster without objects, and gives it what csimux expects: the snapshot controller with its CRDs. */
export async function furnish(): Promise<void> {
  await nodeReady();
  const files = ["/run/cluster/crds", join(import.meta.dirname, "manifests")];
  const { code, stderr } = await kubectl(["apply", "--server-side", ...files.flatMap(file => ["-f", file])]);
  if (code !== 0) throw new Error(stderr);
}
