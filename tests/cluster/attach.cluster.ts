import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { nodeName } from "../../scripts/cluster/place.ts";
import { deployCentral, drivers, folderConnection, undeploy } from "./deploy.ts";
import {
  apply,
  bound,
  eventually,
  find,
  home,
  inPod,
  kube,
  list,
  type Resource,
  remove,
  running,
  warnings,
} from "./kube.ts";
import { tidy } from "./left.ts";
import { claim, pod, storageClass } from "./objects.ts";

/**
 * A second node by its objects alone: nothing runs there, as on one whose network is cut. Without the label of its operating system no
 * DaemonSet waits for it.
 */
const other = "rack2-01";
const otherNode: readonly Resource[] = [
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

const there = { spec: { nodeName: other } };

beforeAll(async () => {
  await deployCentral({ connections: { fast: folderConnection("fast") } });
  await apply(storageClass("fast", drivers.central, "fast"), ...otherNode);
});
afterEach(async () => {
  // No kubelet of that node confirms that its pod has ended.
  await kube("delete", "pod", "away", "-n", home, "--ignore-not-found", "--force", "--grace-period=0");
  await tidy();
});
afterAll(async () => {
  await kube("delete", "node,csinode", other, "--ignore-not-found");
  await kube("delete", "storageclass", "fast");
  await undeploy("cluster");
});

/** The nodes to which a volume is attached, or shall be. */
async function nodesOf(volume: Resource): Promise<readonly string[]> {
  const attachments = await list("volumeattachments");
  return attachments
    .filter(({ spec }) => spec.source.persistentVolumeName === volume.metadata.name)
    .map(({ spec, status }) => `${spec.nodeName}: ${status?.attached}`);
}

const refused = (name: string): Promise<string> =>
  eventually(`${name} is refused`, 120_000, async () =>
    (await warnings(name)).find(each => each.includes("Multi-Attach error")),
  );

test("a ReadWriteOnce volume in use on one node is not given to another before the first has released it", async () => {
  await apply(claim("a", "fast"), pod("here", "a", { run: "echo mine > /data/f; sync" }));
  await running("here");
  const volume = await bound("a");
  expect(await nodesOf(volume)).toEqual([`${nodeName}: true`]);

  await apply(pod("away", "a", there));
  expect(await refused("away")).toContain("Volume is already used by pod(s) here");
  expect(await nodesOf(volume)).toEqual([`${nodeName}: true`]);
  expect(await inPod("here", "cat /data/f")).toBe("mine\n");

  await remove("pod", "here");
  await eventually("the other node has it", 120_000, async () => (await nodesOf(volume)).join() === `${other}: true`);

  // The way back: the other node does not answer, and may still write.
  await apply(pod("again", "a"));
  await refused("again");
  expect((await find("pod", "again"))?.status.phase).toBe("Pending");
  expect(await nodesOf(volume)).toEqual([`${other}: true`]);
  await kube("delete", "pod", "away", "-n", home, "--force", "--grace-period=0");
  await running("again");
  expect(await nodesOf(volume)).toEqual([`${nodeName}: true`]);
  expect(await inPod("again", "cat /data/f")).toBe("mine\n");
});
