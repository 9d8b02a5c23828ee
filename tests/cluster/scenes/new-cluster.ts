import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { until } from "../../../scripts/cluster/first-process.ts";
import { furnish } from "../../../scripts/cluster/furnish.ts";
import { kubectl } from "../../../scripts/cluster/machine.ts";
import { state } from "../../../scripts/cluster/place.ts";
import { kill } from "../../../scripts/cluster/processes.ts";
import { processes } from "./processes.ts";

/** What would remember the objects of another etcd. The machine starts them again (scripts/cluster/machine/init.sh). */
const parts = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"];

/** Differs between clusters; empty while no API server answers. */
const identity = async (): Promise<string> =>
  (await kubectl(["get", "namespace", "kube-system", "-o=jsonpath={.metadata.uid}"])).stdout;

/** Loses every object of the cluster: Kubernetes begins with an empty etcd, on the same node with the disk that it had. */
export async function newCluster(): Promise<void> {
  const before = await identity();
  const [etcd, lost] = [join(state, "etcd"), join(state, "etcd-lost")];
  // etcd keeps its files open, and the next one finds no folder: so it cannot begin with the old ones.
  await rename(etcd, lost);
  const old = (await processes()).filter(({ command }) => parts.some(name => command.startsWith(`${name} `)));
  if (kill(old) < parts.length)
    throw new Error(`only these were running: ${old.map(({ command }) => command).join("; ")}`);
  await rm(lost, { recursive: true });
  await until("a new cluster", 180_000, async () => {
    const now = await identity();
    return now !== "" && now !== before;
  });
  // What kubectl has noted of the API of the old one.
  await rm(join(state, "kubectl"), { recursive: true, force: true });
  await furnish();
}
