import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { nodeName } from "../../scripts/cluster/place.ts";
import { byNode, deployCentral, drivers, undeploy } from "./deploy.ts";
import { apply, bound, eventually, get, kube, list, ready, running, warnings } from "./kube.ts";
import { claim, pod, snapshot, storageClass } from "./objects.ts";
import { tidy } from "./scenes/left.ts";
import { lifeOf } from "./scenes/life.ts";

const classes = [
  storageClass("fast", drivers.central, "fast"),
  storageClass("archive", drivers.central, "archive"),
  storageClass("group", drivers.central, "both"),
  storageClass("now", drivers.central, "fast", { volumeBindingMode: "Immediate" }),
  storageClass("spread", drivers.central, "both", { volumeBindingMode: "Immediate" }),
];

const key = "org.democratic-csi.topology/node";
const place = (value: string) => ({ allowedTopologies: [{ matchLabelExpressions: [{ key, values: [value] }] }] });

beforeAll(async () => {
  await deployCentral(byNode);
  await apply(...classes);
});
afterEach(() => tidy());
afterAll(async () => {
  await kube("delete", "storageclass", ...classes.map(({ metadata }) => metadata.name));
  await undeploy("cluster");
});

describe("a volume on a central storage system", () => {
  test.each(["fast", "archive", "group"])(
    "of class %s is written, moved, expanded, snapshotted, restored and cloned",
    async name => {
      await lifeOf(name, { snapshots: "csimux", grows: true });
    },
  );

  // The names decide, which Kubernetes draws: that all are on one member happens once in 2,048 runs.
  test("of a group is on a member; twelve volumes use both", async () => {
    const names = Array.from({ length: 12 }, (_, number) => `g${number}`);
    await apply(...names.map(name => claim(name, "spread")));
    await bound(...names);
    const volumes = await list("pv");
    const members = volumes.map(({ spec }) => spec.csi.volumeHandle.split("/")[0]);
    expect(new Set(members)).toEqual(new Set(["v:fast", "v:archive"]));
  });
});

describe("the topology of a node", () => {
  test("is published in Kubernetes, with free space for each class that waits for pods", async () => {
    const taken = (await get("csinode", nodeName)).spec.drivers.find(
      (each: { name: string }) => each.name === drivers.central,
    );
    expect(taken.topologyKeys).toEqual([key]);
    expect((await get("node", nodeName)).metadata.labels?.[key]).toBe(nodeName);
    await eventually("free space is published", 120_000, async () => {
      const published = (await list("csistoragecapacities", "storage")).map(each => each["storageClassName"]);
      return ["archive", "fast", "group"].every(name => published.includes(name));
    });
  });

  test.each(["Immediate", "WaitForFirstConsumer"])(
    "that a class allows gets the volume (%s)",
    async volumeBindingMode => {
      await apply(storageClass("here", drivers.central, "fast", { volumeBindingMode, ...place(nodeName) }));
      await apply(claim("a", "here"), pod("a", "a"));
      await running("a");
      await kube("delete", "storageclass", "here");
    },
  );

  test("that no class allows gets none, and the claim's events say why", async () => {
    await apply(
      storageClass("there", drivers.central, "fast", { volumeBindingMode: "Immediate", ...place("elsewhere") }),
    );
    await apply(claim("a", "there"));
    const said = await eventually("a warning", 60_000, async () => (await warnings("a"))[0]);
    expect(said).toContain("elsewhere");
    expect((await get("pvc", "a")).status.phase).toBe("Pending");
    await kube("delete", "storageclass", "there");
  });

  test("is passed from a snapshot to its restored volume, with snapshot topology enabled", async () => {
    await apply(claim("a", "fast"), pod("a", "a", { run: "echo one > /data/f; sync" }));
    await running("a");
    await apply(snapshot("s", "a", "csimux"));
    await ready("s");
    await apply(claim("b", "now", { from: { snapshot: "s" } }), pod("b", "b"));
    await running("b");
    const [rule] = (await bound("b")).spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions;
    expect(rule).toMatchObject({ key, values: [nodeName] });
  });
});
