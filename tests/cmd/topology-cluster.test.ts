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
  test("draws a table of the nodes and a map of places and connections", async () => {
    const { code, out } = await world.run(["--config", config, "--nodes", nodes]);
    expect(out).toBe(`node  node id  zone
e1    n=e1     e
e2    n=e2     e
w1    n=w1     w

        anywhere  east  west  nodes
zone=e  ●         ●     ·     e1, e2
zone=w  ●         ·     ●     w1
● reachable  · not reachable
`);
    expect(code).toBe(0);
  });

  test("says what the mark for storage that only some nodes of a place reach means", async () => {
    const place = "{ requirements: { zone: e }, extra: { x.example/tier: gold } }";
    const gold = `driver: nfs-client\nnfs: { shareHost: x, shareBasePath: /x }\nproxy: { perDriver: { topology: [${place}] } }\n`;
    const folder = world.file("gold/gold.yaml", gold).replace(/\/[^/]*$/, "");
    const stdin = "- { name: e1, labels: {} }\n- { name: e2, labels: { x.example/tier: gold } }\n";
    const { out } = await world.run(["--config", config, "--nodes", "-", "--connections", folder], { stdin });
    expect(out).toContain("zone=e  ◐     e1, e2\n● reachable  ◐ from some of the nodes  · not reachable\n");
  });

  test("reads what kubectl prints as JSON, with labels that stand in the way", async () => {
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
    expect(connections).toContainEqual({ name: "east", nodes: ["e1"] });
    expect(warnings).toEqual([expect.stringContaining("t.example/zone=old but reports e")]);
  });

  test("a node that cannot register stands in the table with its reason, and the exit code is 1", async () => {
    const { code, out } = await world.run(["--config", config, "--nodes", "-"], { stdin: "- e1\n- name: other\n" });
    expect(out).toContain("other  -        -     FAILED_PRECONDITION: no topology rule applies to this node");
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
  ])("%j is no list of nodes", async stdin => {
    const { code, err } = await world.run(["--config", config, "--nodes", "-"], { stdin });
    expect(err).toStartWith("csimux: -");
    expect(code).toBe(2);
  });
});

describe("csimux topology for a connection or a class", () => {
  test("tells for each setting of the sidecar what is sent and answered", async () => {
    const { code, out } = await world.run(["--config", config, "--nodes", nodes, "--connection", "east"]);
    expect(out).toEndWith(`
WaitForFirstConsumer, --strict-topology=true
  pod on e1, e2
    requisite  zone=e
    preferred  zone=e
    answer     volume on east, usable in zone=e
  pod on w1
    requisite  zone=w
    preferred  zone=w
    answer     RESOURCE_EXHAUSTED: connection "east": the storage is reachable from t.example/zone=e, but the request allows only t.example/zone=w
WaitForFirstConsumer, --strict-topology=false
  pod on e1, e2
    requisite  zone=e | zone=w
    preferred  zone=e | zone=w
    answer     volume on east, usable in zone=e
  pod on w1
    requisite  zone=e | zone=w
    preferred  zone=w | zone=e
    answer     volume on east, usable in zone=e
               not usable on this node: the pod moves, or stays pending
Immediate, --immediate-topology=true
    requisite  zone=e | zone=w
    preferred  zone=w | zone=e
    answer     volume on east, usable in zone=e
Immediate, --immediate-topology=false
    sent without topology
    answer     volume on east, usable in zone=e
`);
    expect(code).toBe(0);
  });

  test("a class of a group, with allowedTopologies, is followed through the four settings", async () => {
    const path = world.file(
      "class.yaml",
      storageClass(`volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{ matchLabelExpressions: [{ key: t.example/zone, values: [w] }] }]`),
    );
    const { out } = await world.run(["--config", config, "--nodes", nodes, "--storage-class", path, "-o", "json"]);
    const { modes } = JSON.parse(out);
    const setting = (mode: { strictTopology: boolean; immediateTopology: boolean }) => [
      mode.strictTopology,
      mode.immediateTopology,
    ];
    expect(modes.map(setting)).toEqual([
      [true, true],
      [true, false],
      [false, true],
      [false, false],
    ]);
    const [, onWest] = modes[0].courses;
    expect(modes[0].courses[0]).toEqual({ nodes: ["e1", "e2"], notSent: expect.stringContaining("allowedTopologies") });
    const term = { "t.example/zone": "w" };
    expect(onWest).toEqual({
      nodes: ["w1"],
      requisite: [term],
      preferred: [term],
      volume: [{ connection: "west", accessibleTopology: [term] }],
      usableOnNodes: true,
    });
  });

  test("a suspended member of a group takes nothing", async () => {
    const folder = world.file("other/east.yaml", connection(["e"], "suspended: true")).replace(/\/[^/]*$/, "");
    world.file("other/west.yaml", connection(["w"]));
    const words = ["--config", config, "--nodes", nodes, "--connections", folder, "--connection", "both"];
    const { out } = await world.run(words);
    expect(out).toContain(
      'RESOURCE_EXHAUSTED: no member of the group can take the volume: connection "east": it is suspended',
    );
    expect(out).toContain("volume on west, usable in zone=w");
  });

  test("storage of the node itself is in each node's own place", async () => {
    const local = world.file(
      "local.yaml",
      "driver: proxy\nproxy: { configFolder: own, nodeTopology: { type: node } }\n",
    );
    world.file("own/disk.yaml", "driver: local-hostpath\n");
    const { out } = await world.run(["--config", local, "--nodes", nodes, "--connection", "disk"]);
    expect(out).toContain("node=w1  ●     w1");
    expect(out).toContain("answer     volume on disk, usable in node=w1");
  });

  test("a name that a group and a connection share means the group, as for a class", async () => {
    const both = world.file(
      "taken.yaml",
      main(byName).replace("both: { members: [east, west] }", "east: { members: [west] }"),
    );
    const { out } = await world.run(["--config", both, "--nodes", nodes, "--connection", "east", "-o", "json"]);
    expect(JSON.parse(out).connections).toEqual([{ name: "west", nodes: ["w1"] }]);
  });

  test("a connection that does not exist is exit code 1, a folder that is not here is 2", async () => {
    const unknown = await world.run(["--config", config, "--node-name", "e1", "--connection", "eats"]);
    expect(unknown.err).toContain('there is no connection or group "eats"; did you mean "east"?');
    expect(unknown.code).toBe(1);
    const away = await world.run(["--config", config, "--connections", "/no/such", "--connection", "east"]);
    expect(away.err).toContain("--connections");
    expect(away.code).toBe(2);
  });

  test("a file that is wrong is a question mark on the map and a failure when it is asked for", async () => {
    const folder = world.file("wrong/bad.yaml", "driver: [").replace(/\/[^/]*$/, "");
    const words = ["--config", config, "--nodes", nodes, "--connections", folder];
    expect((await world.run(words)).out).toContain("zone=e  ?    e1, e2");
    const asked = await world.run([...words, "--connection", "bad", "-o", "json"]);
    expect(JSON.parse(asked.out).error.code).toBe("FAILED_PRECONDITION");
  });
});

describe("csimux topology --changes-from", () => {
  const change = async (rules: string, stdin: string, output = "text") => {
    const words = ["--config", world.file("new.yaml", main(rules)), "--changes-from", config, "--nodes", "-"];
    return world.run([...words, "-o", output], { stdin });
  };

  const renamed = byName.replace("'{match:1}'", "'zone-{match:1}'");

  test("prints the label commands that the change needs, as a script", async () => {
    const { code, out } = await change(renamed, "- e1\n- w1\n");
    expect(out).toBe(`# volumes bound to t.example/zone=e will not be usable on e1 any more
kubectl label node e1 t.example/zone=zone-e --overwrite
# volumes bound to t.example/zone=w will not be usable on w1 any more
kubectl label node w1 t.example/zone=zone-w --overwrite
# then restart the node plugin on these nodes, so that they register again
`);
    expect(code).toBe(0);
  });

  test("labels that a node really has count more than what the old rules would give", async () => {
    const stdin = "- { name: e1, labels: { t.example/zone: zone-e } }\n";
    expect((await change(renamed, stdin)).out).toBe("# no label changes\n");
  });

  test("a key that is no longer reported keeps its label, and a new one needs none", async () => {
    const { out } = await change(byName.replace("topologyKey: zone", "topologyKey: area"), "- e1\n", "json");
    expect(JSON.parse(out).changes).toEqual([
      { node: "e1", key: "t.example/zone", from: "e", to: null, command: null },
    ]);
  });

  test("nodes that cannot register with the new rules are named, and the exit code is 1", async () => {
    const { code, out } = await change(renamed.replace("[ew]", "w"), "- e1\n");
    expect(out).toStartWith("# e1 cannot register with the new rules: no topology rule applies");
    expect(code).toBe(1);
  });
});

test("of a cluster where every node is a place, claims are followed for some nodes, and it says so", async () => {
  const local = world.file(
    "many.yaml",
    "driver: proxy\nproxy: { configFolder: disks, nodeTopology: { type: node } }\n",
  );
  world.file("disks/disk.yaml", "driver: local-hostpath\n");
  const stdin = Array.from({ length: 300 }, (_, index) => `node${index}\n`).join("");
  const words = ["--config", local, "--nodes", "-", "--connection", "disk", "-o", "json"];
  const { modes, warnings, nodes: all } = JSON.parse((await world.run(words, { stdin })).out);
  expect(all).toHaveLength(300);
  expect(modes[0].courses).toHaveLength(50);
  expect(warnings).toEqual([expect.stringContaining("300 different places")]);
});
