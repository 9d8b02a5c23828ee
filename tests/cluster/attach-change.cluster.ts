import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { nodeName } from "../../scripts/cluster/place.ts";
import { kill } from "../../scripts/cluster/processes.ts";
import {
  applyCentral,
  type Central,
  deployCentral,
  drivers,
  folderConnection,
  namespace,
  settled,
  undeploy,
} from "./deploy.ts";
import { apply, bound, eventually, get, inPod, kube, list, type Resource, remove, running } from "./kube.ts";
import { claim, pod, storageClass } from "./objects.ts";
import { tidy } from "./scenes/left.ts";
import { nodesOf, other, otherNode, refused, removeThere, there } from "./scenes/other-node.ts";
import { processes } from "./scenes/processes.ts";

// attachRequired changes under a running pod, by the steps of examples/guide/attach.md.

const attaching: Central = { connections: { fast: folderConnection("fast") } };
const sharing: Central = { ...attaching, attaching: false };

beforeAll(async () => {
  await deployCentral(sharing);
  await apply(storageClass("fast", drivers.central, "fast"), ...otherNode);
});
afterEach(async () => {
  await removeThere("away");
  await tidy();
});
afterAll(async () => {
  await kube("delete", "node,csinode", other, "--ignore-not-found");
  await kube("delete", "storageclass", "fast");
  await undeploy("cluster");
  await kube("delete", "clusterrole,clusterrolebinding", "csimux-attacher", "--ignore-not-found");
});

const writing = "i=0; while true; do i=$((i+1)); echo $i > /data/n; sleep 0.2; done";
const written = async (name: string): Promise<number> => Number(await inPod(name, "cat /data/n"));

/** The pod keeps writing beyond `from`, and was not restarted. */
async function wroteOn(name: string, from: number): Promise<void> {
  // A kubelet that has just started does not know its pods yet.
  const now = (): Promise<number> => written(name).catch(() => 0);
  await eventually("the pod writes on", 120_000, async () => (await now()) > from);
  expect((await get("pod", name)).status.containerStatuses[0].restartCount).toBe(0);
}

/** The steps of the change: Kubernetes refuses only the CSIDriver of the new manifests, which is then deleted and recreated. */
async function change(to: Central): Promise<void> {
  const sidecars = async (): Promise<readonly string[]> =>
    (await get("deploy", "csimux-controller", namespace)).spec.template.spec.containers.map(
      (each: { name: string }) => each.name,
    );
  const before = (await get("csidriver", drivers.central)).spec.attachRequired;
  await expect(applyCentral(to)).rejects.toThrow("field is immutable");
  await settled(drivers.central);
  expect((await get("csidriver", drivers.central)).spec.attachRequired).toBe(before);
  expect((await sidecars()).includes("attacher")).toBe(!before);
  await kube("delete", "csidriver", drivers.central);
  await applyCentral(to);
  expect((await get("csidriver", drivers.central)).spec.attachRequired).toBe(!before);
}

/** Whether kubelet reports the volume as in use, so that Kubernetes waits for its unmount. */
async function reported(volume: Resource): Promise<boolean> {
  const inUse: readonly string[] = (await get("node", nodeName)).status.volumesInUse ?? [];
  return inUse.some(each => each.endsWith(volume.spec.csi.volumeHandle));
}

test("a cluster starts to attach while a pod writes: its volume is no longer given to another node", async () => {
  await apply(claim("a", "fast"), pod("here", "a", { run: writing }));
  await running("here");
  const volume = await bound("a");
  expect(await list("volumeattachments")).toEqual([]);
  const from = await eventually("the pod writes", 60_000, () => written("here").catch(() => undefined));

  await change(attaching);
  await eventually(
    "the volume is attached to its node",
    240_000,
    async () => (await nodesOf(volume)).join() === `${nodeName}: true`,
  );
  expect(await reported(volume)).toBe(false);
  await apply(pod("away", "a", there));
  expect(await refused("away")).toContain("Volume is already used by pod(s) here");

  expect(kill((await processes()).filter(({ command }) => command.startsWith("kubelet ")))).toBe(1);
  await eventually("kubelet reports the volume as in use", 180_000, () => reported(volume));
  await wroteOn("here", from);
  expect(await nodesOf(volume)).toEqual([`${nodeName}: true`]);

  await removeThere("away");
  const last = await written("here");
  await remove("pod", "here");
  await eventually("nothing is attached", 120_000, async () => (await nodesOf(volume)).length === 0);
  await apply(pod("again", "a"));
  await running("again");
  expect(await written("again")).toBeGreaterThanOrEqual(last);
});

test("a cluster stops attaching while a pod writes, and later pods start without it", async () => {
  await apply(claim("a", "fast"), pod("here", "a", { run: writing }));
  await running("here");
  const volume = await bound("a");
  expect(await nodesOf(volume)).toEqual([`${nodeName}: true`]);
  const from = await eventually("the pod writes", 60_000, () => written("here").catch(() => undefined));

  await change(sharing);
  await settled(drivers.central);
  await wroteOn("here", from);
  await apply(claim("b", "fast"), pod("new", "b", { run: "echo new > /data/f" }));
  await running("new");
  expect(await nodesOf(await bound("b"))).toEqual([]);

  const last = await written("here");
  await remove("pod", "here");
  await eventually("nothing is attached any more", 240_000, async () => (await list("volumeattachments")).length === 0);
  await apply(pod("again", "a"));
  await running("again");
  expect(await written("again")).toBeGreaterThanOrEqual(last);
  expect(await nodesOf(volume)).toEqual([]);
});
