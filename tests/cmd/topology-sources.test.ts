import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { dataSourcesOf, dataSourcesText, type FolderWays } from "../../cmd/topology/data-sources.ts";
import { TopologyWorld } from "./topology-world.ts";

const files = { volumes: ["rsync"], snapshots: ["rsync", "restore"] } as const;
const stream = { volumes: ["zfs-send"], snapshots: ["zfs-send"] } as const;

const mutual = new Set(["a", "b", "c"]);
const methods: FolderWays = {
  enabled: true,
  targets: [
    { from: ["a", "b", "c"], reached: mutual, reach: stream },
    { from: ["d"], reached: new Set(["a", "f"]), reach: files },
    { from: ["e"], reached: new Set(["a"]), reach: files },
  ],
  unread: new Set(["bad"]),
  omitted: ["late"],
};

describe("where the sources of a class may be", () => {
  test.each([
    [
      "one connection, not itself",
      ["a"],
      [
        ["b", "c"],
        ["d", "e"],
      ],
    ],
    [
      "a group: its members, too, because a volume may be on another one",
      ["a", "b"],
      [
        ["a", "b", "c"],
        ["d", "e"],
      ],
    ],
    ["one that others cannot reach", ["e"], []],
    ["one of another kind", ["f"], [["d"]]],
    ["one whose content is not compared", ["late"], []],
    ["a group with a member that is not known", ["bad", "f"], [["d"]]],
  ])("%s", (_, members, from) => {
    expect(dataSourcesOf(members, methods)?.rows.map(row => [...row.from])).toEqual(from);
  });

  test("nothing is said of a connection whose file is not valid, and no other one is taken for impossible", () => {
    expect(dataSourcesOf(["bad"], methods)).toBeUndefined();
    expect(dataSourcesOf(["f"], methods)?.unknown).toEqual(["bad", "late"]);
  });

  test("the line names the methods, few names, and what is not known", () => {
    const text = (members: readonly string[], more: Partial<FolderWays> = {}) => {
      const found = dataSourcesOf(members, { ...methods, ...more });
      return found && dataSourcesText(found).replace(/^.*? say: /, "");
    };
    expect(text(["a"])).toBe(
      "b, c (zfs-send); d, e (rsync, or restore from snapshots in a repository); not known of bad, late",
    );
    expect(text(["e"], { unread: new Set(), omitted: [] })).toBe("none");
    expect(text(["a"], { enabled: false, targets: [] })).toBe('none, because "proxy.copies.enabled" is false');
    const thousand = Array.from({ length: 1_000 }, (_, index) => `n${index}`);
    expect(text(["a"], { targets: [{ from: thousand, reached: mutual, reach: files }], unread: new Set() })).toBe(
      "n0, n1, n2, n3, n4 and 995 more (rsync, or restore from snapshots in a repository); not known of late",
    );
  });
});

describe("csimux topology", () => {
  let world: TopologyWorld;
  beforeAll(() => {
    world = new TopologyWorld();
  });
  afterAll(() => world.remove());

  const main = (copies = "") =>
    `driver: proxy\nproxy: { configFolder: connections, groups: { both: { members: [a, b] } }${copies} }\n`;
  const nfs = (more = "") =>
    `driver: nfs-client\nnfs: { shareHost: x, shareBasePath: /x, controllerBasePath: /x }\n${more}`;
  const storageClass = (connection: string) =>
    `apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: { name: of-${connection} }\nprovisioner: csi.example\nparameters: { connection: ${connection} }\n`;
  const run = (folder: string, copies = "", output = "text") => {
    const config = world.file("proxy.yaml", main(copies));
    const classes = world.file("classes.yaml", ["a", "shut", "both"].map(storageClass).join("---\n"));
    const words = ["--config", config, "--nodes", world.file("nodes", "n1\n"), "--storage-class", classes];
    return world.run([...words, "--connections", folder, "-o", output]);
  };
  const folder = (name: string, all: Readonly<Record<string, string>>) => {
    for (const [file, text] of Object.entries(all)) world.file(`${name}/${file}.yaml`, text);
    return `${world.folder}/${name}`;
  };
  const shut = nfs("copies: { from: { members: [b] } }\n");

  test("says of each class which connections its sources may be on", async () => {
    const connections = folder("three", { a: nfs(), b: nfs(), shut });
    const { code, out } = await run(connections);
    const head = "  dataSource on other connections, as far as the files say: ";
    const how = "(rsync, or restore from snapshots in a repository)";
    expect(out.slice(out.indexOf("class of-a"))).toBe(`class of-a (connection: a) can be used on every node
${head}b, shut ${how}
class of-shut (connection: shut) can be used on every node
${head}b ${how}
class of-both (connection: both) can be used on every node
${head}a, b, shut ${how}
`);
    expect(code).toBe(0);
    const json = await run(connections, "", "json");
    expect(JSON.parse(json.out).classes[1]).toEqual({
      ...{ name: "of-shut", connection: "shut", usableOn: ["n1"], reasons: [] },
      dataSources: { rows: [{ from: ["b"], ...files }], unknown: [] },
    });
    const off = await run(connections, ", copies: { enabled: false }");
    expect(off.out.split("\n").filter(line => line.startsWith(head))).toEqual(
      Array.from({ length: 3 }, () => `${head}none, because "proxy.copies.enabled" is false`),
    );
  });

  test("says nothing with fewer than two valid files, and names those that are not", async () => {
    const unset = nfs().replace("shareHost: x", 'shareHost: "${env:NOT_HERE}"');
    const one = await run(folder("one", { a: nfs(), b: unset, shut: unset }));
    expect([one.out.includes("class of-a"), one.out.includes("dataSource")]).toEqual([true, false]);
    const two = await run(folder("two", { a: nfs(), b: unset, shut }));
    expect(two.out).toContain("class of-a (connection: a) can be used on every node\n  dataSource");
    expect(two.out).toContain("shut (rsync, or restore from snapshots in a repository); not known of b\n");
  });
});
