import { expect, test } from "bun:test";
import { pageText } from "../../cmd/page/page.ts";
import { straysOf } from "../../cmd/page/strays.ts";
import { claimsOf } from "../../lib/config/cluster.ts";
import { answerOf, connection, large } from "./answers.ts";

const pv = (
  name: string,
  volumeHandle: string,
  driver = "csimux.storage",
  claim: object | null = { namespace: "shop", name },
) => ({
  metadata: { name: `pv-${name}` },
  spec: { csi: { driver, volumeHandle, volumeAttributes: { path: `/somewhere/${name}` } }, claimRef: claim },
});
const clusterWith = (...pvs: readonly object[]) => ({
  nodes: undefined,
  claims: claimsOf(pvs, "csimux.storage"),
  problems: [],
});
const present = pv("db", "v:nas1/pvc-0000");
const gone = pv("web", "v:nas1/pvc-gone");

test("a bound PersistentVolume without its volume is lost, and a volume without a PersistentVolume orphaned", () => {
  const answer = answerOf([connection("nas1"), connection("nas2")], 2);
  const strays = straysOf(answer, clusterWith(present, gone));
  expect(strays).toMatchObject([
    { connection: "nas1", lost: [{ handle: "v:nas1/pvc-gone", claim: "shop/web" }], orphaned: ["v:nas1/pvc-0001"] },
    { connection: "nas2", lost: [], orphaned: ["v:nas2/pvc-0000", "v:nas2/pvc-0001"] },
  ]);
  const page = pageText(answer, clusterWith(present, gone));
  expect(page).toContain("its volume is lost: the PersistentVolume pv-web names v:nas1/pvc-gone");
  expect(page).toContain("2 volumes without a PersistentVolume: v:nas2/pvc-0000, v:nas2/pvc-0001");
  expect(page).toMatch(/<strong>nas1<\/strong>: 2 volumes, .*1 lost/);
  expect(page.indexOf("its volume is lost")).toBeLessThan(page.indexOf("without a PersistentVolume"));
});

test.each([
  [
    "one that is not bound, because its volume may be being deleted",
    [present, pv("web", "v:nas1/pvc-gone", "csimux.storage", null)],
  ],
  ["one of another driver", [present, pv("web", "v:nas1/pvc-gone", "other.example")]],
  ["one of a connection that is not there", [present, pv("web", "v:nas9/pvc-1")]],
] as const)("nothing is lost for %s", (_, pvs) => {
  const answer = answerOf([connection("nas1")], 1);
  expect(straysOf(answer, clusterWith(...pvs))).toEqual([]);
});

test("nothing is lost or orphaned on a connection that could not be listed completely, or if the PersistentVolumes are unknown", () => {
  const answer = answerOf([connection("nas1")], 2);
  const inventory = (answer.inventory ?? []).map(each => ({ ...each, problem: "only 10000 were read" }));
  expect(straysOf({ ...answer, inventory }, clusterWith(present, gone))).toEqual([]);
  expect(straysOf(answer, { nodes: [], claims: undefined, problems: ["forbidden"] })).toEqual([]);
  expect(straysOf(answer, undefined)).toEqual([]);
});

test("many good connections are folded, and those with problems are not", () => {
  const names = Array.from({ length: 30 }, (_, index) => `nas${index}`);
  const all = names.map(name => connection(name, name === "nas7" ? { state: "unreachable" } : {}));
  const page = pageText(answerOf(all, 0), undefined);
  expect(page).toMatch(/<details><summary>.*29 good<\/span><\/summary>/);
  const fold = page.indexOf("29 good</span></summary>");
  const folded = page.slice(fold);
  expect(page.slice(0, fold)).toContain('<th scope="row">nas7</th>');
  for (const name of names.filter(each => each !== "nas7")) expect(folded).toContain(`<th scope="row">${name}</th>`);
  expect(pageText(answerOf(all.slice(0, 7), 0), undefined)).not.toContain("7 good</span></summary>");
});

test("connections without volumes share a line, unless theirs could not be listed or are lost", () => {
  const answer = answerOf([connection("nas1"), connection("nas2"), connection("nas3")], 1);
  const inventory = (answer.inventory ?? []).map((each, index) => (index === 0 ? each : { ...each, volumes: [] }));
  const lines = (given: typeof inventory) => pageText({ ...answer, inventory: given }, undefined);
  expect(lines(inventory)).toContain("No volumes: nas2, nas3</p>");
  expect(lines(inventory)).toContain("<summary><strong>nas1</strong>");
  const unlisted = lines(inventory.map((each, index) => (index === 2 ? { ...each, problem: "no route" } : each)));
  expect(unlisted).toContain("No volumes: nas2</p>");
  expect(unlisted).toContain("<summary><strong>nas3</strong>");
});

test("a served page says which replica made it, and can be loaded again; a file cannot", () => {
  const answer = answerOf([connection("nas1")], 0, { host: "csimux-controller-7d9f-x2k", node: "w1" });
  const served = pageText(answer, undefined, true);
  expect(served).toContain("controller csimux-controller-7d9f-x2k on w1");
  expect(served).toContain('<a href="">refresh</a>');
  expect(served).toContain('<body data-refresh="60">');
  expect(pageText(answer, undefined)).not.toContain("refresh</a>");
});

test("the free space of a group counts each pool once", () => {
  const of = (name: string, gib: number, pool?: string) =>
    connection(name, {
      freeBytes: { value: gib * 2 ** 30, at: "2026-11-24T12:00:00Z" },
      ...(pool !== undefined && { pool }),
    });
  const all = [
    of("a", 60, "tank on nas1"),
    of("b", 40, "tank on nas1"),
    of("c", 10, "tank on nas2"),
    of("d", 5),
    of("e", 5),
  ];
  const groups = [{ name: "all", policy: "spread", members: all.map(({ name }) => name) }] as const;
  expect(pageText(answerOf(all, 0, { groups }), undefined)).toMatch(
    /<th scope="row">all<\/th><td[^>]*>spread<\/td><td[^>]*>80.0 GiB<\/td>/,
  );
});

test("the worst problems come first: what cannot be used, then what is degraded, then orphans", () => {
  const { answer, cluster } = large();
  const page = pageText(answer, { ...cluster, claims: cluster.claims?.slice(1) });
  const at = (text: string) => page.indexOf(text);
  const places = [
    at("TargetMissing (inaccessible"),
    at("PoolDegraded (degraded"),
    at("copy: failing"),
    at("without a PersistentVolume"),
  ];
  expect(places.every(each => each > 0)).toBe(true);
  expect(places).toEqual([...places].sort((a, b) => a - b));
});
