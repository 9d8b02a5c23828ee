import { afterAll, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { compared, type pvsIn } from "../../../cmd/cluster/volumes/compare.ts";
import { listingData, listingText } from "../../../cmd/cluster/volumes/text.ts";
import { readObjects } from "../../../lib/config/cluster.ts";
import { Handles } from "../../../lib/mux/handles.ts";
import { fakeZfs } from "../../fakes/zfs/pools.ts";
import { listOf, pv, volumes } from "./volumes-run.ts";

const folder = mkdtempSync(join(tmpdir(), "csimux-volumes-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const file = (name: string, text: string): string => {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
};

const main = file(
  "proxy.yaml",
  `driver: proxy
proxy:
  configFolder: ${folder}/connections
  nodeTopology: { type: node }
  groups: { disks: { members: [one, two], policy: ordered } }
`,
);
for (const [name, volumes] of [
  ["one", ["pvc-1", "pvc-2", "photos"]],
  ["two", ["pvc-1", "pvc-3"]],
] as const) {
  for (const volume of volumes) file(`${name}/v/${volume}/data`, "theirs");
  const base = join(folder, name);
  file(
    `connections/${name}.yaml`,
    `driver: local-hostpath\nlocal-hostpath: { shareBasePath: ${base}, controllerBasePath: ${base} }\n`,
  );
}
file("connections/hand.yaml", "driver: node-manual\n");

const cluster = listOf(
  pv("pvc-1", "v:one/pvc-1"),
  pv("old", "pvc-3", { path: `${folder}/two/v/pvc-3/`, node_attach_driver: "hostpath" }, "org.democratic-csi.old"),
  pv("pvc-9", "v:one/pvc-9"),
  pv("pvc-8", "v:elsewhere/pvc-8"),
  pv("pvc-7", "v:one/pvc-7", {}, "another.driver"),
);

const run = (...words: readonly string[]) => volumes(cluster, ...words);

/** Everything below the connections, with times of change. */
const state = (): string =>
  ["one", "two"]
    .map(each =>
      execFileSync("find", [join(folder, each), "-printf", "%p %y %m %U %s %T@ %C@\n"], { encoding: "utf8" }),
    )
    .join("");

describe("csimux volumes", () => {
  test("lists bound, orphaned and lost volumes, twins, and what it cannot list", async () => {
    const { code, out } = await run("--config", main, "--pvs", "-", "--json");
    const { volumes, connections } = JSON.parse(out);
    const states = volumes.map((each: Record<string, string>) => [each["handle"], each["state"], each["note"]]);
    expect(states).toEqual([
      ["v:one/pvc-9", "lost", null],
      ["v:one/photos", "orphaned", null],
      ["v:one/pvc-2", "orphaned", null],
      ["v:two/pvc-1", "twin", "a volume of the same name is on one"],
      ["v:elsewhere/pvc-8", "unknown", 'there is no connection "elsewhere"'],
      ["v:one/pvc-1", "bound", "a volume of the same name is on two"],
      ["v:two/pvc-3", "bound", 'used as "pvc-3" of org.democratic-csi.old'],
    ]);
    expect(connections[0]).toEqual({
      name: "hand",
      problem: "the driver node-manual cannot list its volumes",
      lists: false,
      keptProblem: null,
    });
    // The connection of one has no file.
    expect(code).toBe(2);
  });

  test("does not say that each has its volume while a connection has no file, or nothing can be listed", async () => {
    const codeOf = async (list: string, ...words: readonly string[]) =>
      (await volumes(list, ...words, "--pvs", "-")).code;
    const [present, absent] = [pv("pvc-1", "v:one/pvc-1"), pv("pvc-8", "v:elsewhere/pvc-8")];
    const [own, other] = ["one", "two"].map(name => {
      const base = file(`alone-${name}/${name}.yaml`, "driver: node-manual\n");
      return file(`alone-${name}.yaml`, `driver: proxy\nproxy: { configFolder: ${dirname(base)} }\n`);
    });
    expect(await codeOf(listOf(present), "--config", own ?? "")).toBe(0);
    expect(await codeOf(listOf(present), "--config", other ?? "")).toBe(2);
    expect(await codeOf(listOf(absent), "--config", main)).toBe(2);
    const lost = file("lost.yaml", `driver: proxy\nproxy: { configFolder: ${folder}/lost }\n`);
    for (const words of [[], ["orphans"], ["adopt", "--all"]])
      for (const config of [lost, join(folder, "no.yaml")])
        expect(await codeOf(listOf(present), ...words, "--config", config)).toBe(2);
  });

  test("shows people a summary and a table, and without PersistentVolumes where the storage is", async () => {
    const { out } = await run("list", "--config", main, "--pvs", file("cluster.json", cluster));
    expect(out).toStartWith("7 volumes, 3 connections: 1 lost, 2 orphaned, 1 twin, 1 unknown, 2 bound\n");
    expect(out).toMatch(/^one +pvc-1 +- +bound +shop\/claim-pvc-1 /m);
    expect(out).toEndWith("hand: the driver node-manual cannot list its volumes\n");
    const alone = await run("--config", main);
    expect(alone.out).toContain(`path ${folder}/one/v/photos`);
    expect(alone.code).toBe(0);
  });

  test("prints how orphans can be deleted, each by a PersistentVolume of its own, and deletes nothing", async () => {
    const before = state();
    const { out, code } = await run("orphans", "--print-delete", "--config", main, "--pvs", "-");
    const pvs = readObjects("orphans", out);
    expect(pvs.map(each => (each["spec"] as { csi: { volumeHandle: string } }).csi.volumeHandle)).toEqual([
      "v:one/photos",
      "v:one/pvc-2",
      "v:two/pvc-1",
    ]);
    expect(new Set(pvs.map(each => (each["metadata"] as { name: string }).name)).size).toBe(3);
    expect(pvs[0]).toMatchObject({
      metadata: { annotations: { "pv.kubernetes.io/provisioned-by": "csimux.storage" } },
      spec: { persistentVolumeReclaimPolicy: "Delete", claimRef: { uid: "00000000-0000-0000-0000-000000000000" } },
    });
    expect(out).toContain("Nothing has been deleted");
    expect(code).toBe(1);
    expect(state()).toBe(before);
    expect((await run("orphans", "--config", main)).err).toContain("--pvs is missing");
  });

  test.each([
    ["", [], "has no PersistentVolumes"],
    [listOf({ kind: "PersistentVolumeClaim", metadata: { name: "a" } }), [], "has no PersistentVolumes"],
    [listOf(), ["--print-delete"], "the cluster has no PersistentVolume"],
  ])("does not take every volume for an orphan if the list of the cluster is %p", async (text, words, reason) => {
    const pvs = file("part.json", text);
    const { code, out, err } = await run("orphans", ...words, "--config", main, "--pvs", pvs);
    expect([code, out]).toEqual([2, ""]);
    expect(err).toContain(reason);
  });

  test("prints a PersistentVolume and a claim that bind to each other and lead to the node of the volume", async () => {
    const before = state();
    const object = `${folder}/one/v/photos`;
    const { out, code } = await run("adopt", "one", object, "--config", main, "--pvs", "-", "--claim", "shop/photos");
    const [volume, claim] = readObjects("adopt", out);
    expect(volume).toMatchObject({
      metadata: { name: "photos" },
      spec: {
        persistentVolumeReclaimPolicy: "Retain",
        claimRef: { namespace: "shop", name: "photos" },
        csi: { driver: "csimux.storage", volumeHandle: "v:one/photos", volumeAttributes: { path: object } },
      },
    });
    expect(JSON.stringify(volume)).toContain('"values":["w1"]');
    expect(claim).toMatchObject({
      metadata: { namespace: "shop", name: "photos" },
      spec: { volumeName: "photos", storageClassName: "" },
    });
    expect(code).toBe(0);
    expect(state()).toBe(before);
  });

  test.each([
    [["adopt", "one", "pvc-1"], 'used by the PersistentVolume pvc-1 (csimux.storage, "v:one/pvc-1") of claim shop/'],
    [["adopt", "two", "pvc-3"], 'used by the PersistentVolume old (org.democratic-csi.old, "pvc-3")'],
    [["adopt", "one", "absent"], 'volume "absent" does not exist'],
    [["adopt", "one", "/elsewhere/photos"], "is not where this connection has its volumes"],
    [["adopt", "hand", "x"], "the driver node-manual cannot read its storage"],
    [["adopt", "nope", "x"], 'connection "nope" is not configured'],
  ])("%p is refused with the reason, and changes nothing", async (words, text) => {
    const before = state();
    const { err, out, code } = await run(...words, "--mark", "--config", main, "--pvs", "-");
    expect([out, code]).toEqual(["", 1]);
    expect(err).toContain(text);
    expect(state()).toBe(before);
  });
});

test("a volume that was made from a snapshot or a volume names it, with and without a cluster", () => {
  const handles = new Handles(
    () => undefined,
    () => undefined,
  );
  const source = { kind: "snapshot" as const, id: "s:nas/a@monday" };
  const volume = { own: "b", id: "v:nas/b", bytes: 0n, context: {}, source, accessibleTopology: [] };
  const listed = [{ name: "nas", volumes: [volume], problem: undefined, isUnlisted: false, retain: false }];
  const rows = (pvs?: ReturnType<typeof pvsIn>) => compared({ listed, duplicates: [] }, pvs, "csimux.storage", handles);
  for (const each of [rows(), rows([])]) expect(listingText(each, listed)).toContain("made from s:nas/a@monday");
  expect(listingData(rows(), listed, "csimux.storage").volumes).toMatchObject([{ source: "s:nas/a@monday" }]);
});

describe("of a volume that its class keeps", () => {
  const root = "tank/k/v";
  const tenure = (more: object) =>
    JSON.stringify({ claim: "shop/data", holder: "pvc-1", shape: "mount", retain: true, instance: "east", ...more });

  const on = (text: string, ...words: readonly string[]) => running(text, "adopt", "pool", "pvc-1", ...words);

  /** Runs on a connection with one volume that has this tenure. */
  async function running(text: string, ...words: readonly string[]) {
    const fake = await fakeZfs();
    const path = process.env["PATH"];
    try {
      process.env["PATH"] = `${fake.bin}:${path}`;
      const marks = {
        "democratic-csi:managed_resource": "true",
        "democratic-csi:provision_success": "true",
        "csimux:tenure": text,
        "csimux:retained": "true",
      };
      fake.zfs("create", "-p", root);
      const options = Object.entries(marks).flatMap(([key, value]) => ["-o", `${key}=${value}`]);
      fake.zfs("create", ...options, `${root}/pvc-1`);
      const connection = file(
        "single/pool.yaml",
        `driver: zfs-local-dataset\ninstance_id: east\nzfs: { datasetParentName: ${root}, detachedSnapshotsDatasetParentName: tank/k/s }\n`,
      );
      const own = () => fake.find(`${root}/pvc-1`)?.own;
      const before = own();
      const answer = await run(...words, "--config", mainOf(dirname(connection)));
      return { ...answer, before, own: own() };
    } finally {
      process.env["PATH"] = path;
      await fake.close();
    }
  }

  const mainOf = (connections: string): string =>
    file("single.yaml", `driver: proxy\nproxy:\n  configFolder: ${connections}\n  nodeTopology: { type: node }\n`);

  test.each([
    ["given up", { released: "4711" }, ["--claim", "shop/data"]],
    ["given up, to another claim", { released: "4711" }, ["--claim", "shop/other"]],
    ["made for another claim", {}, ["--claim", "shop/other"]],
  ])("adopt, %s: prints nothing without --mark, and with it the claim cannot have it again", async (_, more, words) => {
    const refused = await on(tenure(more), ...words);
    expect([refused.code, refused.out, refused.own]).toEqual([1, "", refused.before]);
    expect(refused.err).toContain(
      'claim shop/data may have "pvc-1" again (adopt: byClaim); give --mark, which ends that',
    );
    const { code, out, own } = await on(tenure(more), ...words, "--mark");
    expect([code, readObjects("adopt", out).length]).toEqual([0, 2]);
    expect(JSON.parse(own?.["csimux:tenure"]?.value ?? "")).toEqual({
      ...{ holder: "pvc-1", shape: "mount", retain: true, instance: "east" },
    });
    expect(own?.["csimux:retained"]?.value).toBe("true");
  });

  test("adopt for its own claim, which has not given it up, or if its class does not keep it, needs no --mark", async () => {
    for (const [text, claim] of [
      [tenure({}), "shop/data"],
      [tenure({ retain: false }), "shop/other"],
      [tenure({ claim: undefined, released: "4711" }), "shop/other"],
    ] as const) {
      const { code, out, own, before } = await on(text, "--claim", claim);
      expect([code, readObjects("adopt", out).length, own]).toEqual([0, 2, before]);
    }
  });

  test("orphans --print-delete prints nothing that would only give it up, and says so", async () => {
    const words = ["orphans", "--print-delete", "--pvs", "-"];
    const kept = await running(tenure({}), ...words);
    expect([kept.code, readObjects("orphans", kept.out)]).toEqual([1, []]);
    expect(kept.out).toContain(
      "# v:pool/pvc-1: its class has deleteStrategy: retain, or a claim has given it up once; delete it by hand\n",
    );
    const { out } = await running(tenure({ retain: false }), ...words);
    expect(readObjects("orphans", out)).toHaveLength(1);
  });
});
