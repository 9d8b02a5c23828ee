import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { parse, stringify } from "yaml";
import { TopologyWorld } from "./topology-world.ts";

const rules = `driver: proxy
proxy:
  configFolder: /connections
  nodeTopology:
    type: zone
    prefix: t.example
    fromRegexp:
      - { topologyKey: zone, source: nodeName, template: rest }
      - { topologyKey: zone, source: env, envName: ZONE }
      - { topologyKey: rack, source: file, file: /topology/rack, regex: 'rack-([0-9]+)', template: 'r{match:1}' }
      - { topologyKey: room, source: nodeLabel, label: example.com/room, default: hall }
`;

const connection = (zone: string) =>
  `driver: nfs-client\nnfs: {}\nproxy: { perDriver: { topology: [{ requirements: { zone: ${zone} } }] } }\n`;

let world: TopologyWorld;
let config = "";
beforeAll(() => {
  world = new TopologyWorld();
  config = world.file("proxy.yaml", rules);
});
afterAll(() => world.remove());

const full = ["--node-name", "w1", "--env", "ZONE=z1", "--file", "/topology/rack=rack-7\n", "--label", "a=b"];

describe("csimux topology for one node", () => {
  test("shows the answer and what became of each rule", async () => {
    const { code, out, err } = await world.run(["--config", config, ...full]);
    expect(out).toBe(`node id   n=w1 (4 bytes)
topology  t.example/zone=z1
          t.example/rack=r7
          t.example/room=hall

rule  key   source                      input     value  why
1     zone  nodeName                    "w1"      rest   matched, but rule 2 gives the key its value
2     zone  env ZONE                    "z1"      z1     matched
3     rack  file /topology/rack         "rack-7"  r7     matched
4     room  nodeLabel example.com/room  -         hall   node label example.com/room is not there; using the default
`);
    expect([code, err]).toEqual([0, ""]);
  });

  test("has a stable form for programs", async () => {
    const { code, out } = await world.run(["--config", config, ...full, "--output", "json"]);
    expect(JSON.parse(out)).toEqual({
      nodeId: "n=w1",
      segments: { "t.example/zone": "z1", "t.example/rack": "r7", "t.example/room": "hall" },
      rules: [
        {
          key: "zone",
          source: "nodeName",
          input: "w1",
          applied: true,
          value: "rest",
          reason: "matched, but rule 2 gives the key its value",
        },
        { key: "zone", source: "env", input: "z1", applied: true, value: "z1", reason: "matched" },
        { key: "rack", source: "file", input: "rack-7", applied: true, value: "r7", reason: "matched" },
        {
          key: "room",
          source: "nodeLabel",
          input: null,
          applied: false,
          value: "hall",
          reason: "node label example.com/room is not there; using the default",
        },
      ],
    });
    expect(code).toBe(0);
    const yaml = await world.run(["--config", config, ...full, "-o", "yaml"]);
    expect(parse(yaml.out)).toEqual(JSON.parse(out));
  });

  test("a node that cannot register is exit code 1, with the reason, and for programs with the code", async () => {
    const words = ["--config", config, "--node-name", "w1", "--env", "ZONE=zone one", "--label", "a=b"];
    const json = await world.run([...words, "-o", "json"]);
    expect(JSON.parse(json.out)).toEqual({
      error: { code: "FAILED_PRECONDITION", message: expect.stringContaining('rule 2 (key "zone"): "zone one"') },
    });
    expect(json.code).toBe(1);
    const text = await world.run(words);
    expect(text.err).toStartWith('csimux: topology rule 2 (key "zone")');
    expect(text.out).toContain("matched");
    expect(text.code).toBe(1);
  });

  test("outside of a cluster, a rule that wants a label says how to give one", async () => {
    const { code, err } = await world.run(["--config", config, "--node-name", "w1"]);
    expect(err).toContain('a rule needs the label "example.com/room" of the node');
    expect(err).toContain("--label example.com/room=<value>, or a list of nodes with --nodes");
    expect(code).toBe(2);
  });

  test("facts that are not given are those of the machine", async () => {
    const simple = world.file(
      "host.yaml",
      stringify({
        driver: "proxy",
        proxy: {
          configFolder: "/c",
          nodeTopology: {
            type: "zone",
            fromRegexp: [
              { topologyKey: "host", source: "hostname" },
              { topologyKey: "zone", source: "env", envName: "Z" },
            ],
          },
        },
      }),
    );
    const { out } = await world.run(["--config", simple, "-o", "json"], { env: { CSI_NODE_ID: "w9", Z: "z9" } });
    expect(JSON.parse(out)).toMatchObject({
      nodeId: "n=w9",
      segments: { "org.democratic-csi.topology/host": "box", "org.democratic-csi.topology/zone": "z9" },
    });
  });

  test("what objects inherit is not a variable", async () => {
    const rules = "[{ topologyKey: zone, source: env, envName: toString }]";
    const odd = world.file(
      "odd.yaml",
      `driver: proxy\nproxy: { configFolder: /c, nodeTopology: { type: zone, fromRegexp: ${rules} } }\n`,
    );
    const { code, err } = await world.run(["--config", odd, "--node-name", "w1"]);
    expect(err).toContain("variable toString is not there");
    expect(code).toBe(1);
  });

  test("rules that cannot be compiled are exit code 1, each with its reason", async () => {
    const wrong = rules.replace("rack-([0-9]+)", "([").replace("template: rest", "template: '{match:2}'");
    const { code, out, err } = await world.run(["--config", world.file("wrong.yaml", wrong), ...full]);
    expect(err).toMatch(
      /rule 1 \(key "zone"\): the template names group 2.*rule 3 \(key "rack"\): the pattern cannot be/,
    );
    expect([code, out]).toEqual([1, ""]);
  });

  test("shows the topology of connections on demand, and whether the node reaches them", async () => {
    const folder = world.file("few/nas.yaml", connection("z1")).replace(/\/[^/]*$/, "");
    world.file("few/other.yaml", connection("z2"));
    const { code, out } = await world.run(["--config", config, ...full, "--connections", folder]);
    expect(out).toEndWith(`
connection  reached  reachable from
nas         yes      zone=z1
other       no       zone=z2
`);
    expect(code).toBe(0);
  });

  test("colours appear only where they are wanted", async () => {
    const words = ["--config", config, ...full];
    expect((await world.run(words, { colour: true })).out).toContain("\u001b[1m");
    expect((await world.run(words)).out).not.toContain("\u001b");
  });

  test.each([
    [["--config", "/no/such/proxy.yaml"], "cannot be read (ENOENT)"],
    [[], "--config is missing"],
    [["--config", "x", "--output", "xml"], "text, json or yaml"],
    [["--config", "x", "--env", "ZONE"], "--env takes name=value"],
    [["--config", "x", "--connection", "a", "--storage-class", "b"], "exclude each other"],
    [["--config", "x", "--nodes", "-", "--storage-class", "-"], "only one of"],
  ])("%j is bad usage", async (words, reason) => {
    const { code, err, out } = await world.run(words);
    expect(err).toContain(reason);
    expect([code, out]).toEqual([2, ""]);
  });
});
