import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { nodeName } from "../../scripts/cluster/place.ts";
import { deployCentral, drivers, folderConnection, undeploy } from "./deploy.ts";
import { apply, bound, eventually, find, inPod, kube, remove, running } from "./kube.ts";
import { claim, pod, storageClass } from "./objects.ts";
import { tidy } from "./scenes/left.ts";
import { nodesOf, other, otherNode, refused, removeThere, there } from "./scenes/other-node.ts";

beforeAll(async () => {
  await deployCentral({ connections: { fast: folderConnection("fast") } });
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
});

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

  // In the other direction: the other node does not answer, and may still write.
  await apply(pod("again", "a"));
  await refused("again");
  expect((await find("pod", "again"))?.status.phase).toBe("Pending");
  expect(await nodesOf(volume)).toEqual([`${other}: true`]);
  await removeThere("away");
  await running("again");
  expect(await nodesOf(volume)).toEqual([`${nodeName}: true`]);
  expect(await inPod("again", "cat /data/f")).toBe("mine\n");
});
