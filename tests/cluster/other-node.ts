import { drivers } from "./deploy.ts";
import { eventually, home, kube, list, type Resource, warnings } from "./kube.ts";

/**
 * A second node by its objects alone: nothing runs there, as on one whose network is cut. Without the label of its operating system no
 * DaemonSet waits for it.
 */
export const other = "rack2-01";
export const otherNode: readonly Resource[] = [
  {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name: other,
      annotations: { "volumes.kubernetes.io/controller-managed-attach-detach": "true" },
    } as Resource["metadata"],
  },
  {
    apiVersion: "storage.k8s.io/v1",
    kind: "CSINode",
    metadata: { name: other },
    spec: { drivers: [{ name: drivers.central, nodeID: other, topologyKeys: [] }] },
  },
];

/** Puts a pod on the other node. */
export const there = { spec: { nodeName: other } };

/** Removes a pod of the other node: no kubelet there confirms that it has ended. */
export const removeThere = async (name: string): Promise<void> => {
  await kube("delete", "pod", name, "-n", home, "--ignore-not-found", "--force", "--grace-period=0");
};

/** The nodes to which a volume is attached, or shall be. */
export async function nodesOf(volume: Resource): Promise<readonly string[]> {
  const attachments = await list("volumeattachments");
  return attachments
    .filter(({ spec }) => spec.source.persistentVolumeName === volume.metadata.name)
    .map(({ spec, status }) => `${spec.nodeName}: ${status?.attached}`);
}

/** Waits until Kubernetes refuses a pod its volume, because another node has it; answers in which words. */
export const refused = (name: string): Promise<string> =>
  eventually(`${name} is refused`, 120_000, async () =>
    (await warnings(name)).find(each => each.includes("Multi-Attach error")),
  );
