import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { deployLocal, drivers, undeploy } from "./deploy.ts";
import { apply, bound, get, inPod, list, running } from "./kube.ts";
import { claim, pod } from "./objects.ts";
import { tidy } from "./scenes/left.ts";
import { lifeOf } from "./scenes/life.ts";

beforeAll(deployLocal);
afterEach(() => tidy());
afterAll(() => undeploy("node-local"));

test("one claim and one pod work with the unchanged manifests of node-local", async () => {
  await apply(claim("a", "disk-local"), pod("writer", "a", { run: "echo hello > /data/f" }));
  await running("writer");
  const volume = await bound("a");
  expect(volume.spec.csi.driver).toBe(drivers.local);
  expect(volume.spec.csi.volumeHandle).toBe(`v:disk/${volume.metadata.name}`);
  const [rule] = volume.spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions;
  expect(rule.values).toEqual([(await get("pod", "writer")).spec.nodeName]);
  expect(await inPod("writer", "cat /data/f")).toBe("hello\n");
});

test("volumes of the node are written, moved, snapshotted, restored and cloned", async () => {
  await lifeOf("disk-local", { snapshots: "csimux-local", grows: false });
});

test("the free space of the node is published for the scheduler", async () => {
  const published = await list("csistoragecapacities", "storage");
  expect(published.map(each => each["storageClassName"])).toEqual(["disk-local"]);
  expect(published[0]?.["capacity"]).toMatch(/^\d+[KMGT]?i?$/);
});
