import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { TopologyWorld } from "./topology-world.ts";

const main = (more: string) => `driver: proxy
proxy:
  configFolder: connections
  groups:
    both: { members: [east, west] }
  nodeTopology:
    type: zone
    prefix: t.example
    fromRegexp:
${more}`;

const byName = `      - { topologyKey: zone, source: nodeName, regex: '([ew])[0-9]+', template: '{match:1}' }
`;

const connection = (zones: readonly string[], more = "") => `driver: nfs-client
nfs: { shareHost: "\${env:NOT_HERE}", shareBasePath: /x }
${more}
${zones.length === 0 ? "" : `proxy: { perDriver: { topology: [${zones.map(zone => `{ requirements: { zone: ${zone} } }`).join(", ")}] } }`}
`;

const storageClass = (lines: string) => `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: { name: fast }
provisioner: csi.example
parameters: { connection: both }
${lines}
`;

let world: TopologyWorld;
let config = "";
let nodes = "";
beforeAll(() => {
  world = new TopologyWorld();
  config = world.file("proxy.yaml", main(byName));
  nodes = world.file("nodes", "NAME   STATUS\ne1     Ready\ne2     Ready\nw1     Ready\n");
  world.file("connections/east.yaml", connection(["e"]));
  world.file("connections/west.yaml", connection(["w"]));
  world.file("connections/anywhere.yaml", connection([]));
});
afterAll(() => world.remove());

describe("csimux topology for many nodes", () => {
  test("says first who registers and where each connection is reachable from; the map is drawn on demand", async () => {
    const summary = `3 of 3 nodes can register, in 2 topologies by zone

connection  nodes  reachable from
anywhere    3/3    everywhere
east        2/3    zone=e
west        1/3    zone=w
`;
    const short = await world.run(["--config", config, "--nodes", nodes]);
    expect([short.code, short.out]).toEqual([0, summary]);
    const { code, out } = await world.run(["--config", config, "--nodes", nodes, "--details"]);
    expect(out).toBe(`${summary}
node  node id  zone
e1    n=e1     e
e2    n=e2     e
w1    n=w1     w

   topology  nodes
1  zone=e    e1, e2
2  zone=w    w1

          1  2
anywhere  ●  ●
east      ●  ·
west      ·  ●
● reachable  · not reachable
`);
    expect(code).toBe(0);
  });

  test("a summary does not grow with the cluster, and names nodes that reach nothing and storage that no node reaches", async () => {
    const folder = world.file("few/east.yaml", connection(["e"])).replace(/\/[^/]*$/, "");
    world.file("few/north.yaml", connection(["n"]));
    const rules = byName.replace("[ew]", "[a-z]+");
    const stdin = Array.from({ length: 100 }, (_, index) => `${index < 60 ? "e" : "x"}${index}\n`).join("");
    const words = ["--config", world.file("few.yaml", main(rules)), "--nodes", "-", "--connections", folder];
    const { code, out } = await world.run(words, { stdin });
    expect(out).toBe(`100 of 100 nodes can register, in 2 topologies by zone

connection  nodes   reachable from
east        60/100  zone=e
north       0/100   zone=n (no node is there)

x60, x61, x62 and 37 more (zone=x) reach no connection
`);
    expect(code).toBe(0);
  });

  test("explains the mark for storage that only some nodes of a topology reach", async () => {
    const place = "{ requirements: { zone: e }, extra: { x.example/tier: gold } }";
    const gold = `driver: nfs-client\nnfs: { shareHost: x, shareBasePath: /x }\nproxy: { perDriver: { topology: [${place}] } }\n`;
    const folder = world.file("gold/gold.yaml", gold).replace(/\/[^/]*$/, "");
    const stdin = "- { name: e1, labels: {} }\n- { name: e2, labels: { x.example/tier: gold } }\n";
    const words = ["--config", config, "--nodes", "-", "--connections", folder, "--details"];
    const { out } = await world.run(words, { stdin });
    expect(out).toContain("gold  ◐\n● reachable  ◐ from some of the nodes  · not reachable\n");
  });

  test("reads the JSON output of kubectl, with labels that keep a node from registering", async () => {
    const node = (name: string, labels: object) => ({
      kind: "Node",
      metadata: { name, labels },
      status: { addresses: [{ type: "Hostname", address: `${name}.example` }] },
    });
    const list = { kind: "List", items: [node("e1", { "t.example/zone": "old" }), node("w1", {})] };
    const json = JSON.stringify(list);
    const { out } = await world.run(["--config", config, "--nodes", "-", "-o", "json"], { stdin: json });
    const { warnings, nodes: got, connections } = JSON.parse(out);
    expect(got.map((each: { name: string; nodeId: string }) => [each.name, each.nodeId])).toEqual([
      ["e1", "n=e1"],
      ["w1", "n=w1"],
    ]);
    const snapshots = { accessibleTopology: [{ "t.example/zone": "e" }] };
    expect(connections).toContainEqual({ name: "east", nodes: ["e1"], snapshots });
    expect(connections).toContainEqual({
      name: "anywhere",
      nodes: ["e1", "w1"],
      snapshots: { accessibleTopology: [] },
    });
    expect(warnings).toEqual([expect.stringContaining("t.example/zone=old but reports e")]);
  });

  test("nodes that cannot register are in the summary and in the table with their reason, and the exit code is 1", async () => {
    const stdin = `- e1\n- other\n${Array.from({ length: 40 }, (_, index) => `- n${index}\n`).join("")}`;
    const { code, out } = await world.run(["--config", config, "--nodes", "-", "--details"], { stdin });
    expect(out).toStartWith(
      "1 of 42 nodes can register, in 1 topology by zone\n  other cannot: no topology rule applies",
    );
    expect(out).toContain("  and 36 more nodes; see --details\n");
    expect(out).toContain("other  -        -     no topology rule applies to this node");
    expect(out).not.toContain("FAILED_PRECONDITION");
    expect(code).toBe(1);
  });

  test("nodes that report different keys are warned about", async () => {
    const gap = main(`${byName}      - { topologyKey: rack, source: env, envName: RACK }\n`);
    const stdin = "- { name: e1, env: { RACK: r1 } }\n- { name: e2 }\n";
    const { out } = await world.run(["--config", world.file("gap.yaml", gap), "--nodes", "-"], { stdin });
    expect(out).toContain("warning: node e2 does not report t.example/rack");
  });

  test.each([
    ["the plain table", "NAME STATUS ROLES\ne1 Ready <none>\nw1 Ready <none>\n"],
    ["a table without its header", "e1 Ready <none>\nw1 NotReady <none>\n"],
    ["-o name", "node/e1\nnode/w1\n"],
    ["-o jsonpath, which puts all on one line", "e1 w1"],
    [
      "-o yaml",
      "kind: List\nitems:\n- { kind: Node, metadata: { name: e1 } }\n- { kind: Node, metadata: { name: w1 } }\n",
    ],
  ])("names come from %s", async (_, stdin) => {
    const { out } = await world.run(["--config", config, "--nodes", "-", "-o", "json"], { stdin });
    expect(JSON.parse(out).nodes.map(({ name }: { name: string }) => name)).toEqual(["e1", "w1"]);
  });

  test.each([
    "",
    "[]",
    '{"items":[{"kind":"Pod","metadata":{"name":"e1"}}]}',
    "- { labels: {} }",
    "- 'a b'",
    "- e1\n- e1",
    "{",
    "\u0000",
  ])("%j is not a list of nodes", async stdin => {
    const { code, err } = await world.run(["--config", config, "--nodes", "-"], { stdin });
    expect(err).toStartWith("csimux: -");
    expect(code).toBe(2);
  });
});

describe("csimux topology for a connection or a class", () => {
  test("a class of a group is usable on allowed nodes that a member is reachable from", async () => {
    const path = world.file(
      "class.yaml",
      storageClass(`allowedTopologies: [{ matchLabelExpressions: [{ key: t.example/zone, values: [w] }] }]`),
    );
    const { out } = await world.run(["--config", config, "--nodes", nodes, "--storage-class", path, "-o", "json"]);
    expect(JSON.parse(out).classes).toEqual([
      {
        name: "fast",
        connection: "both",
        usableOn: ["w1"],
        reasons: ["allowedTopologies of the class excludes the node"],
      },
    ]);
  });

  test("a suspended member of a group takes nothing", async () => {
    const folder = world.file("other/east.yaml", connection(["e"], "suspended: true")).replace(/\/[^/]*$/, "");
    world.file("other/west.yaml", connection(["w"]));
    const path = world.file("both.yaml", storageClass(""));
    const words = ["--config", config, "--nodes", nodes, "--connections", folder, "--storage-class", path];
    const { out } = await world.run(words);
    expect(out).toContain("east        2/3    zone=e (suspended: takes no new volumes)");
    expect(out).toContain("class fast (connection: both) can be used on 1 of 3 nodes: w1");
    const json = await world.run([...words, "-o", "json"]);
    expect(JSON.parse(json.out).classes[0].reasons).toEqual([
      'connection "east" is suspended; connection "west" is reachable only from zone=w',
    ]);
  });

  test("storage of the node itself is reachable from each node", async () => {
    const local = world.file(
      "local.yaml",
      "driver: proxy\nproxy: { configFolder: own, nodeTopology: { type: node } }\n",
    );
    world.file("own/disk.yaml", "driver: local-hostpath\n");
    const { out } = await world.run(["--config", local, "--nodes", nodes, "--connection", "disk", "--details"]);
    expect(out).toContain("disk        3/3    the node that made the volume");
    expect(out).toContain("disk  ●  ●  ●\n");
  });

  test("a name that a group and a connection share means the group, as for a class", async () => {
    const both = world.file(
      "taken.yaml",
      main(byName).replace("both: { members: [east, west] }", "east: { members: [west] }"),
    );
    const { out } = await world.run(["--config", both, "--nodes", nodes, "--connection", "east", "-o", "json"]);
    expect(JSON.parse(out).connections).toMatchObject([{ name: "west", nodes: ["w1"] }]);
  });

  test("a connection that does not exist is exit code 1, a folder that is not here is 2", async () => {
    const unknown = await world.run(["--config", config, "--node-name", "e1", "--connection", "eats"]);
    expect(unknown.err).toContain('there is no connection or group "eats"; did you mean "east"?');
    expect(unknown.code).toBe(1);
    const away = await world.run(["--config", config, "--connections", "/no/such", "--connection", "east"]);
    expect(away.err).toContain("--connections");
    expect(away.code).toBe(2);
  });

  test("a wrong file is a question mark on the map, and a failure if its connection is named", async () => {
    const folder = world.file("wrong/bad.yaml", "driver: [").replace(/\/[^/]*$/, "");
    const words = ["--config", config, "--nodes", nodes, "--connections", folder];
    const { code, out } = await world.run(words);
    expect(out).toContain("bad         ?      its file is wrong: bad.yaml:1:");
    expect(code).toBe(1);
    expect((await world.run([...words, "--details"])).out).toContain("bad  ?  ?");
    const asked = await world.run([...words, "--connection", "bad", "-o", "json"]);
    expect(JSON.parse(asked.out).error.code).toBe("FAILED_PRECONDITION");
  });
});

describe("csimux topology for all classes of a file", () => {
  const classes = (...all: readonly (readonly [name: string, connection: string, more?: string])[]) =>
    all
      .map(([name, of, more = ""]) =>
        storageClass(`volumeBindingMode: WaitForFirstConsumer\n${more}`)
          .replace("name: fast", `name: ${name}`)
          .replace("connection: both", `connection: ${of}`),
      )
      .join("---\n");

  test("says of each where it can be used, and why one can never be bound", async () => {
    world.file("mixed/east.yaml", connection(["e"]));
    world.file("mixed/west.yaml", connection(["w"]));
    world.file("mixed/off.yaml", connection([], "suspended: true"));
    const folder = world.file("mixed/north.yaml", connection(["n"])).replace(/\/[^/]*$/, "");
    const other =
      "kind: StorageClass\napiVersion: storage.k8s.io/v1\nmetadata: { name: disk }\nprovisioner: other\n---\n";
    const text =
      other + classes(["all", "both"], ["some", "east"], ["none", "north"], ["off", "off"], ["eats", "eats"]);
    const path = world.file("classes.yaml", text);
    const words = ["--config", config, "--nodes", nodes, "--connections", folder, "--storage-class", path];
    const { code, out } = await world.run(words);
    const lines = out.split("\n").filter(line => line.startsWith("class "));
    expect(lines).toEqual([
      "class all (connection: both) can be used on every node",
      "class some (connection: east) can be used on 2 of 3 nodes: e1, e2",
      expect.stringMatching(/^class none \(connection: north\) can never be bound: .*reachable only from zone=n/),
      expect.stringMatching(/^class off \(connection: off\) can never be bound: .*suspended/),
      'class eats (connection: eats) can never be bound: there is no connection or group "eats"; did you mean "east"?',
    ]);
    expect(code).toBe(1);
  });

  test("reads the classes of a cluster from the list of its nodes", async () => {
    const items = [
      { kind: "Node", metadata: { name: "e1" } },
      { kind: "StorageClass", metadata: { name: "fast" }, parameters: { connection: "east" } },
      { kind: "StorageClass", metadata: { name: "other" }, parameters: { type: "ssd" } },
    ];
    const stdin = JSON.stringify({ kind: "List", items });
    const { code, out } = await world.run(["--config", config, "--nodes", "-"], { stdin });
    expect(out).toContain("1 of 1 node can register");
    expect(out.split("\n").filter(line => line.startsWith("class "))).toEqual([
      "class fast (connection: east) can be used on every node",
    ]);
    expect(code).toBe(0);
  });

  test.each([
    ["nodes", "kind: Node\n", "contains no StorageClass"],
    ["classes of other drivers", "kind: StorageClass\n", 'no class has the parameter "connection"'],
  ])("a file of %s is exit code 2", async (_, text, reason) => {
    const path = world.file("not-ours.yaml", text);
    const { code, out, err } = await world.run(["--config", config, "--nodes", nodes, "--storage-class", path]);
    expect([code, out, err]).toEqual([2, "", expect.stringContaining(reason)]);
  });

  test("an immediately bound class can be used where its volume is", async () => {
    const path = world.file("now.yaml", storageClass("").replace("connection: both", "connection: east"));
    const { code, out } = await world.run(["--config", config, "--nodes", nodes, "--storage-class", path]);
    expect(out).toContain("class fast (connection: east) can be used on 2 of 3 nodes: e1, e2");
    expect(code).toBe(0);
  });
});

describe("csimux topology ends with exit code 2", () => {
  const byLabel = main("      - { topologyKey: zone, source: nodeLabel, label: site.example/zone }\n");

  test("if connections or labels of nodes are unknown", async () => {
    const far = world.file("far.yaml", main(byName).replace("configFolder: connections", "configFolder: /no/such"));
    const { code, out } = await world.run(["--config", far, "--nodes", nodes]);
    expect([code, out]).toEqual([2, expect.stringContaining("connections were not checked: the folder /no/such")]);
    const labels = await world.run(["--config", world.file("labels.yaml", byLabel), "--nodes", nodes]);
    expect(labels.out).toContain("the list of nodes does not contain the labels of e1");
    expect(labels.code).toBe(2);
  });

  test("facts of this machine are not those of listed nodes", async () => {
    const byEnv = world.file("env.yaml", main("      - { topologyKey: zone, source: env, envName: ZONE }\n"));
    const { out } = await world.run(["--config", byEnv, "--nodes", nodes, "-o", "json"], { env: { ZONE: "here" } });
    expect(JSON.parse(out).nodes[0]).toHaveProperty("error.code", "FAILED_PRECONDITION");
  });
});

test("the map of 30 connections and 100 topologies fits 80 columns", async () => {
  const folder = world.file("thirty/c0.yaml", connection(["n0"])).replace(/\/[^/]*$/, "");
  for (let index = 1; index < 30; index++) world.file(`thirty/connection-${index}.yaml`, connection([`n${index}`]));
  const rules = main("      - { topologyKey: zone, source: nodeName }\n");
  const words = ["--config", world.file("hundred.yaml", rules), "--connections", folder, "--nodes", "-", "--details"];
  const stdin = Array.from({ length: 100 }, (_, index) => `n${index}\n`).join("");
  const { code, out } = await world.run(words, { stdin });
  expect(Math.max(...out.split("\n").map(line => line.length))).toBeLessThanOrEqual(80);
  expect(out.split("●")).toHaveLength(32);
  expect(code).toBe(0);
});
