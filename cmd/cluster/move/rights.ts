import { mapLimit } from "../../../lib/core/semaphore.ts";
import type { Kubectl } from "./kubectl.ts";
import { MoveRefusal } from "./refusal.ts";

/**
 * Verbs and resources, as kubectl auth can-i takes them: all changes of the cluster, and reads that follow the first change. Earlier reads need
 * no check: they fail with kubectl's own message before anything is changed.
 */
const everywhere = [
  ["get", "persistentvolumes"],
  ["create", "persistentvolumes"],
  ["patch", "persistentvolumes"],
  ["get", "nodes"],
  ["list", "volumeattachments.storage.k8s.io"],
] as const;

/** kubectl scale with --current-replicas reads and updates the subresource (kubectl 0.36, pkg/scale/scale.go). */
const inNamespace = [
  ["get", "persistentvolumeclaims"],
  ["create", "persistentvolumeclaims"],
  ["delete", "persistentvolumeclaims"],
  ["get", "statefulsets.apps"],
  ["update", "statefulsets.apps/scale"],
  ["get", "deployments.apps"],
  ["update", "deployments.apps/scale"],
] as const;

/** How many checks run at once. */
const atOnce = 6;

/** Throws MoveRefusal with every missing right, before anything is changed. */
export async function checkRights(kubectl: Kubectl, namespaces: readonly string[]): Promise<void> {
  const pods = await kubectl.cluster.pods();
  const own = [...new Set(pods.map(({ namespace }) => namespace))];
  const needed: readonly (readonly string[])[] = [
    ...everywhere.map(([verb, resource]) => [verb, resource]),
    ...namespaces.flatMap(namespace => inNamespace.map(([verb, resource]) => [verb, resource, "-n", namespace])),
    ...own.map(namespace => ["create", "pods/exec", "-n", namespace]),
  ];
  const missing = await mapLimit(needed, atOnce, async words => {
    const { exitCode, stdout } = await kubectl.run(["auth", "can-i", ...subresource(words)]);
    return exitCode === 0 && stdout.trim() === "yes" ? [] : [words.join(" ").replace(" -n ", " in namespace ")];
  });
  const all = missing.flat();
  if (all.length > 0) throw new MoveRefusal(`you may not ${all.join("; ")} (kubectl auth can-i); ask for these rights`);
}

/** kubectl auth can-i takes a subresource as a flag. */
const subresource = ([verb = "", resource = "", ...rest]: readonly string[]): readonly string[] => {
  const [whole = "", part] = resource.split("/");
  return [verb, whole, ...rest, ...(part === undefined ? [] : [`--subresource=${part}`])];
};
