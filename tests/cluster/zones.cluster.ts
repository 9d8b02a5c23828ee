import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { nodeName } from "../../scripts/cluster/place.ts";
import { type Central, deployCentral, drivers, folderConnection, undeploy } from "./deploy.ts";
import { apply, bound, eventually, get, kube, list, running, warnings } from "./kube.ts";
import { claim, pod, storageClass } from "./objects.ts";
import { tidy } from "./scenes/left.ts";

const key = "org.democratic-csi.topology/zone";
const inZone = (zone: string) => [
  "proxy:",
  "  perDriver:",
  "    topology:",
  "      - requirements:",
  `          zone: ${zone}`,
];

/** The zone is a label of the node; one connection is in the node's zone, the other in another one. */
const byZone: Central = {
  connections: { near: folderConnection("near", inZone("rack1")), far: folderConnection("far", inZone("rack2")) },
  proxy: [
    ...["  nodeTopology:", "    type: zone", "    fromRegexp:", "      - topologyKey: zone"],
    ...["        source: nodeLabel", "        label: topology.kubernetes.io/zone"],
    ...["  groups:", "    both:", "      members: [near, far]", "      policy: spread"],
  ],
};

const classes = ["near", "far", "both"].flatMap(name => [
  storageClass(name, drivers.central, name),
  storageClass(`${name}-now`, drivers.central, name, { volumeBindingMode: "Immediate" }),
]);

beforeAll(async () => {
  await deployCentral(byZone);
  await apply(...classes);
});
afterEach(() => tidy());
afterAll(async () => {
  await kube("delete", "storageclass", ...classes.map(({ metadata }) => metadata.name));
  await undeploy("cluster");
  await kube("label", "node", nodeName, `${key}-`);
});

test("the node's zone comes from its label in the cluster, with only the permissions of the manifests", async () => {
  const taken = (await get("csinode", nodeName)).spec.drivers.find(
    (each: { name: string }) => each.name === drivers.central,
  );
  expect(taken.topologyKeys).toEqual([key]);
  expect((await get("node", nodeName)).metadata.labels?.[key]).toBe("rack1");
});

test("a storage system in the node's zone takes volumes, bound to the zone", async () => {
  await apply(claim("a", "near"), pod("a", "a"));
  await running("a");
  const [rule] = (await bound("a")).spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions;
  expect(rule).toMatchObject({ key, values: ["rack1"] });
});

test("a storage system in another zone takes no volume of a waiting pod; with immediate binding, the pod of its volume is not scheduled", async () => {
  await apply(claim("a", "far"), pod("a", "a"), claim("b", "far-now"), pod("b", "b"));
  await eventually("the pod cannot be placed", 90_000, async () => (await warnings("a")).length > 0);
  const [rule] = (await bound("b")).spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions;
  expect(rule).toMatchObject({ key, values: ["rack2"] });
  await eventually("its pod cannot be placed", 90_000, async () => (await warnings("b")).length > 0);
  expect((await get("pvc", "a")).status.phase).toBe("Pending");
});

test("a group gives a pod the member that it can reach", async () => {
  await apply(...["a", "b", "c"].flatMap(name => [claim(name, "both"), pod(name, name)]));
  await running("a", "b", "c");
  const handles = (await list("pv")).map(({ spec }) => spec.csi.volumeHandle.split("/")[0]);
  expect(handles).toEqual(["v:near", "v:near", "v:near"]);
});
