import { drivers } from "../deploy.ts";
import { eventually, home, kube, list, type Resource, warnings } from "../kube.ts";

/**
 * A second node that exists only as objects, like a node with a broken network. Without the label of its operating system, no
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

/** Assigns a pod to the other node. */
export const there = { spec: { nodeName: other } };

/** Removes a pod of the other node, where no kubelet confirms its end. */
export const removeThere = async (name: string): Promise<void> => {
  await kube("delete", "pod", name, "-n", home, "--ignore-not-found", "--force", "--grace-period=0");
};

/** The nodes that a volume is attached to, or is being attached to. */
export async function nodesOf(volume: Resource): Promise<readonly string[]> {
  const attachments = await list("volumeattachments");
  return attachments
    .filter(({ spec }) => spec.source.persistentVolumeName === volume.metadata.name)
    .map(({ spec, status }) => `${spec.nodeName}: ${status?.attached}`);
}

/** Waits until Kubernetes refuses a pod its volume, because another node has it; returns the message. */
export const refused = (name: string): Promise<string> =>
  eventually(`${name} is refused`, 120_000, async () =>
    (await warnings(name)).find(each => each.includes("Multi-Attach error")),
  );
