import { machinePid } from "../../../scripts/cluster/machine.ts";
import { kill, type Process, processesBelow } from "../../../scripts/cluster/processes.ts";
import { drivers, namespace } from "../deploy.ts";
import { kube, list, type Resource } from "../kube.ts";

/** All processes of the cluster's machine. */
export const processes = async (): Promise<readonly Process[]> => processesBelow(await machinePid());

/** csimux processes in pods of a kind, without tini. */
export async function csimux(mode: "controller" | "node"): Promise<readonly Process[]> {
  const all = await processes();
  return all.filter(
    ({ command }) => /^\/usr\/local\/bin\/csimux serve /.test(command) && command.includes(`--mode=${mode}`),
  );
}

/** The pod with the leading provisioner of the central driver; undefined between two leaders. */
export async function leader(): Promise<Resource | undefined> {
  const leases = await list("leases", namespace);
  const lease = leases.find(({ metadata }) => metadata.name === drivers.central.replaceAll(".", "-"));
  const holder: string | undefined = lease?.spec.holderIdentity;
  const pods = await list("pods", namespace, "-l", "app.kubernetes.io/component=controller");
  return pods.find(({ metadata }) => holder?.includes(metadata.name));
}

/** The processes of a pod. */
export async function processesOf({ metadata: { uid } }: Resource): Promise<readonly Process[]> {
  return uid === undefined ? [] : (await processes()).filter(({ cgroup }) => cgroup.includes(uid));
}

/** Kills every process of the leading pod and removes the pod. Returns whether there was one. */
export async function killLeader(): Promise<boolean> {
  const pod = await leader();
  if (pod === undefined) return false;
  const met = kill(await processesOf(pod));
  await kube("-n", namespace, "delete", "pod", pod.metadata.name, "--grace-period=0", "--force", "--wait=false");
  return met > 0;
}

/**
 * Kills repeatedly while `work` runs, and waits for it. Returns how often a process was killed. kubelet waits longer before each new
 * start, from ten seconds on, so there are few.
 */
export async function killing(work: Promise<unknown>, mode: "controller" | "node", times: number): Promise<number> {
  let over = false;
  let met = 0;
  const done = work.finally(() => {
    over = true;
  });
  while (!over && met < times) {
    met += kill(await csimux(mode));
    await new Promise(resolve => setTimeout(resolve, 2_000));
  }
  await done;
  return met;
}
