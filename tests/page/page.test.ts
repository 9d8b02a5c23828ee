import { expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { pageText, policy } from "../../cmd/page/page.ts";
import { reachMap } from "../../cmd/page/places.ts";
import { readNodesAndVolumes } from "../../lib/config/cluster.ts";
import { answerOf, connection, dead, hostile, large } from "./answers.ts";

/** The tags of a page by name, with their attributes. */
function tagsOf(text: string): readonly { readonly name: string; readonly attributes: readonly string[] }[] {
  const found: { name: string; attributes: string[] }[] = [];
  new HTMLRewriter()
    .on("*", {
      element: ({ tagName, attributes }) =>
        void found.push({ name: tagName, attributes: [...attributes].map(([key]) => key) }),
    })
    .transform(text);
  return found;
}

test("hostile names and messages add no element, no attribute and no control character to the page", () => {
  const { answer, cluster } = hostile();
  const text = pageText(answer, cluster);
  const tags = tagsOf(text);
  expect(tags.filter(({ name }) => name === "script" || name === "style")).toHaveLength(2);
  expect(tags.filter(({ name }) => ["img", "iframe", "a-b", "b"].includes(name))).toEqual([]);
  const attributes = new Set(tags.flatMap(each => each.attributes));
  expect([...attributes].filter(name => name.startsWith("on") || name === "style" || name === "src")).toEqual([]);
  const links = [...text.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, link = ""]) => link);
  expect(links.filter(link => !link.startsWith("#"))).toEqual([]);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
  expect(text).not.toMatch(/[\0-\x09\x0b-\x1f\x7f-\x9f\u202e\u2066\u200b]/);
  expect(text).toContain(`&lt;img src=x onerror=`);
  expect(text.isWellFormed()).toBe(true);
});

test("the policy admits exactly the style and the script of the page, and nothing from elsewhere", () => {
  const text = pageText(answerOf([connection("nas1")], 1), undefined);
  const hash = (tag: string) => {
    const [, content = ""] = new RegExp(`<${tag}>([^]*?)</${tag}>`).exec(text) ?? [];
    return createHash("sha256").update(content).digest("base64");
  };
  expect(policy).toContain(`style-src 'sha256-${hash("style")}'`);
  expect(policy).toContain(`script-src 'sha256-${hash("script")}'`);
  expect(policy).toStartWith("default-src 'none'; ");
  expect(text).not.toMatch(/(?:src|action)=|@import|url\(|http:\/\/(?!www\.w3\.org\/2000\/svg")/);
});

test("a dead storage system is the first problem, with what to do, and its volumes are not shown as none", () => {
  const all = [connection("nas1"), dead("nas2", { accessibleTopology: ["zone=b"] })];
  const text = pageText(answerOf(all, 3), undefined);
  expect(text).toContain("2 connections: 1 good, 1 unreachable");
  expect(text).toContain(
    "cannot check the storage: connect ETIMEDOUT 192.0.2.7:443 (for 21m; calls are refused, next check in 12s)",
  );
  expect(text).toContain("<strong>What to do:</strong> check the storage system and the network");
  expect(text.replace(/<[^>]*>/g, "")).toContain("nas2: ▲ not listed");
  expect(text.replace(/<[^>]*>/g, "")).toContain("nas1: 3 volumes");
  expect(text).not.toContain("nas2</strong>: 0");
  const { inventory = [] } = answerOf([connection("nas2")], 3);
  const stale = pageText(answerOf([dead("nas2")], 3, { inventory }), undefined);
  expect(stale.replace(/<[^>]*>/g, " ")).toMatch(/pvc-0000\s+1\.0 GiB\s+0\s+unknown/);
  expect(pageText(answerOf([connection("nas1")], 3), undefined)).toContain("No problems are known.");
});

test("30 connections, 100 nodes and 5,100 volumes are one page of all of them, with claims, conditions and groups", () => {
  const { answer, cluster } = large();
  const text = pageText(answer, cluster);
  const rows = tagsOf(text).filter(({ attributes }) => attributes.includes("data-row")).length;
  expect(rows).toBeGreaterThan(29 * 176);
  expect(text.length).toBeLessThan(2_000_000);
  for (const wanted of [
    'data-row="v:storage-berlin-30/pvc-0175"><th scope="row">pvc-0175</th>',
    "team-4/data-175",
    "PoolDegraded",
    "TargetMissing",
    "replace the disk",
  ])
    expect(text).toContain(wanted);
  expect(text).toContain("zone=ber12-a: worker-012, worker-024, worker-036 and 5 more");
});

test("a process that lists no volumes says so", () => {
  const answer = answerOf([connection("nas1")], 1, { inventory: undefined, modes: ["node"] });
  expect(pageText(answer, undefined)).toContain("The volumes were not listed.");
});

test("the labels of nodes decide who reaches what; without nodes, the topologies of connections are the places", () => {
  const all = [
    connection("a", { accessibleTopology: ["zone=z2", "rack=r1,zone=z10"] }),
    connection("everywhere"),
    connection("file", { driver: undefined, state: "bad" }),
  ];
  const node = (name: string, labels: Record<string, string>) => ({
    name,
    labels: Object.fromEntries(Object.entries(labels).map(([key, value]) => [`p/${key}`, value])),
  });
  const nodes = [
    node("n1", { zone: "z10", rack: "r1" }),
    node("n2", { zone: "z2" }),
    node("n3", { zone: "z10", rack: "r2" }),
  ];
  const known = reachMap({ connections: all, prefix: "p", nodes });
  expect(known.places).toEqual([
    { text: "rack=r1,zone=z10", nodes: ["n1"] },
    { text: "rack=r2,zone=z10", nodes: ["n3"] },
    { text: "zone=z2", nodes: ["n2"] },
  ]);
  expect(known.rows.map(({ reach }) => reach)).toEqual([
    ["all", "none", "all"],
    ["all", "all", "all"],
    ["unknown", "unknown", "unknown"],
  ]);
  const unknown = reachMap({ connections: all, prefix: "p", nodes: undefined });
  expect(unknown.places.map(({ text }) => text)).toEqual(["rack=r1,zone=z10", "zone=z2"]);
  expect(unknown.rows[0]?.reach).toEqual(["all", "all"]);
  expect(reachMap({ connections: [connection("a")], prefix: "p", nodes: undefined }).places).toEqual([
    { text: "everywhere", nodes: undefined },
  ]);
});

test("a volume that was taken over has its claim, whatever the driver name and the id of its PersistentVolume are", () => {
  const share = (name: string) => ({ node_attach_driver: "nfs", server: "nas", share: `/mnt/tank/v/${name}` });
  const pv = (name: string, driver: string, volumeHandle: string) => ({
    ...{ apiVersion: "v1", kind: "PersistentVolume", metadata: { name } },
    spec: {
      csi: { driver, volumeHandle, volumeAttributes: share(name) },
      claimRef: { namespace: "shop", name: `data-of-${name}` },
    },
  });
  const items = [
    pv("pvc-1", "csimux.storage", "pvc-1"),
    pv("pvc-2", "org.democratic-csi.nfs", "pvc-2"),
    pv("pvc-3", "csimux.storage", "v:nas1/pvc-3"),
    pv("pvc-5", "csimux.storage", "v:nas1/pvc-5"),
  ];
  const cluster = readNodesAndVolumes("kubectl", JSON.stringify({ kind: "List", items }), "csimux.storage");
  const volumes = ["pvc-1", "pvc-2", "pvc-3", "pvc-4"].map(name => {
    const place = `share /mnt/tank/v/${name}`;
    return { id: `v:nas1/${name}`, place, bytes: 1 << 30, snapshots: 0 };
  });
  const inventory = [{ connection: "nas1", problem: undefined, volumes }];
  const text = pageText({ ...answerOf([connection("nas1")], 4), inventory }, cluster);
  for (const name of ["pvc-1", "pvc-2", "pvc-3"]) expect(text).toContain(`shop/data-of-${name}`);
  // The storage does not have it.
  expect(text).toContain("the PersistentVolume pvc-5 names v:nas1/pvc-5");
  expect(text.match(/ orphaned<\/span>/g)).toHaveLength(1);
});

test("nodes and claims come from kubectl's output, those of other drivers and kinds are ignored", () => {
  const volume = (name: string, driver: string, claimRef?: object) => ({
    kind: "PersistentVolume",
    metadata: { name },
    spec: { csi: { driver, volumeHandle: `v:nas1/${name}` }, claimRef },
  });
  const items = [
    { kind: "Node", metadata: { name: "n1", labels: { "p/zone": "a" } } },
    volume("pvc-1", "csimux.storage", { namespace: "shop", name: "data" }),
    volume("pvc-2", "csimux.storage"),
    volume("pvc-3", "other.example"),
    { kind: "PersistentVolume", metadata: { name: "old" }, spec: { hostPath: { path: "/x" } } },
  ];
  const read = readNodesAndVolumes("c.json", JSON.stringify({ kind: "List", items }), "csimux.storage");
  expect(read.nodes?.map(({ name, labels }) => ({ name, labels }))).toEqual([
    { name: "n1", labels: { "p/zone": "a" } },
  ]);
  expect(read.claims).toEqual([
    { handle: "v:nas1/pvc-1", volume: "pvc-1", claim: "shop/data" },
    { handle: "v:nas1/pvc-2", volume: "pvc-2", claim: undefined },
  ]);
  const { answer } = large();
  const text = pageText(
    {
      ...answer,
      inventory: [
        {
          connection: "nas1",
          problem: undefined,
          volumes: ["pvc-1", "pvc-2", "pvc-9"].map(id => ({ id: `v:nas1/${id}`, bytes: 0, snapshots: undefined })),
        },
      ],
    },
    read,
  );
  expect(text).toContain("shop/data");
  expect(text).toContain("released (pvc-2)");
  expect(() => readNodesAndVolumes("c.json", '{"items":[]}', "x")).toThrow(
    "contains no nodes and no PersistentVolumes",
  );
});
