import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "../../scripts/build.ts";
import { type Spawned, spawned } from "../../scripts/spawned.ts";

/** A main file, its older form, connection files, a class and a list of nodes; what is printed is beside them. */
const given = fileURLToPath(new URL("command/", import.meta.url));

let program = "";
let folder = "";

beforeAll(async () => {
  program = await build();
  folder = await mkdtemp(join(tmpdir(), "csimux-topology-"));
  await cp(given, folder, { recursive: true });
  const node = { kind: "Node", metadata: { name: "rack-1-a", labels: { "topology.kubernetes.io/zone": "za" } } };
  await writeFile(join(folder, "one.json"), JSON.stringify({ kind: "List", items: [node] }));
}, 60_000);

afterAll(() => rm(folder, { recursive: true, force: true }));

const csimux = (...args: readonly string[]): Promise<Spawned> =>
  spawned([program, "topology", ...args], { cwd: folder, env: { CSI_NODE_ID: "", NODE_ZONE: "" } });

/** Compares with what is kept; `UPDATE_GOLDEN=1` keeps what is printed now. */
async function expectKept(name: string, printed: string): Promise<void> {
  const file = join(given, `${name}.golden`);
  if (process.env["UPDATE_GOLDEN"]) await writeFile(file, printed);
  expect(printed).toBe(await readFile(file, "utf8"));
}

const zoneA = ["--label", "topology.kubernetes.io/zone=za"];
const main = ["--config", "proxy.yaml"];
const nodes = ["--nodes", "nodes.yaml"];

describe("csimux topology prints, to be read at a glance,", () => {
  test.each<readonly [string, number, readonly string[]]>([
    ["node", 0, [...main, "--node-name", "rack-1-a", ...zoneA]],
    ["node-by-default", 0, [...main, "--node-name", "other", ...zoneA]],
    ["node-refused", 1, [...main, "--node-name", "rack-1-a", "--label", "other=x"]],
    ["node-map", 0, [...main, "--node-name", "rack-1-a", ...zoneA, "--connections", "connections"]],
    ["summary", 1, [...main, ...nodes, "--storage-class", "class.yaml"]],
    ["nodes", 1, [...main, ...nodes, "--details"]],
    ["connection", 1, [...main, ...nodes, "--connection", "nas-a", "--details"]],
    ["storage-class", 1, [...main, ...nodes, "--storage-class", "class.yaml", "--details"]],
    ["changes", 1, [...main, ...nodes, "--changes-from", "old.yaml"]],
    ["wrong-rules", 1, ["--config", "wrong.yaml", "--node-name", "w1"]],
  ])("what belongs into %s.golden", async (name, want, args) => {
    const { code, stdout, stderr } = await csimux(...args);
    await expectKept(name, stdout + (stderr === "" ? "" : `--- standard error ---\n${stderr}`));
    expect(code).toBe(want);
  });
});

describe("csimux topology for programs", () => {
  test("gives a node's answer in the documented JSON form", async () => {
    const { code, stdout } = await csimux(...main, "--node-name", "rack-1-a", ...zoneA, "-o", "json");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      nodeId: "n=rack-1-a",
      segments: { "t.example/zone": "za", "t.example/rack": "r1" },
      rules: [
        { key: "zone", source: "nodeLabel", input: "za", applied: true, value: "za", reason: expect.any(String) },
        { key: "rack", source: "nodeName", input: "rack-1-a", applied: true, value: "r1", reason: expect.any(String) },
        { key: "zone", source: "env", input: null, applied: false, value: null, reason: expect.any(String) },
      ],
    });
  });

  test("gives a failure, and nothing else, with exit code 1", async () => {
    const { code, stdout, stderr } = await csimux(...main, "--node-name", "rack-1-a", "--label", "o=x", "-o", "json");
    expect([code, stderr]).toEqual([1, ""]);
    expect(JSON.parse(stdout)).toEqual({ error: { code: "FAILED_PRECONDITION", message: expect.any(String) } });
  });

  test("says the same in YAML", async () => {
    const args = [...main, "--node-name", "rack-1-a", ...zoneA, "-o"];
    const [json, yaml] = await Promise.all([csimux(...args, "json"), csimux(...args, "yaml")]);
    const { parse } = await import("yaml");
    expect(parse(yaml.stdout)).toEqual(JSON.parse(json.stdout));
  });

  test("says of each connection from which nodes it and its snapshots are reached", async () => {
    const { stdout } = await csimux(...main, ...nodes, "-o", "json");
    const within = (...accessibleTopology: object[]) => ({ snapshots: { accessibleTopology } });
    const zone = (name: string) => ({ "t.example/zone": name });
    expect(JSON.parse(stdout).connections).toMatchObject([
      { name: "everywhere", nodes: ["rack-1-a", "rack-2-a", "rack-3-a", "rack-4-a"] },
      { name: "nas-a", nodes: ["rack-1-a", "rack-4-a"], ...within(zone("za")) },
      { name: "nas-b", nodes: ["rack-2-a"], ...within(zone("zb")) },
      { name: "nas-gold", nodes: ["rack-4-a"], ...within({ ...zone("za"), "x.example/tier": "gold" }) },
    ]);
  });
});

describe("the nodes of csimux topology", () => {
  test("may come from standard input", async () => {
    const script = `"$0" topology --config proxy.yaml --nodes - -o json < nodes.yaml`;
    const { stdout } = await spawned(["sh", "-c", script, program], { cwd: folder });
    expect(JSON.parse(stdout).nodes).toHaveLength(5);
  });

  test("are not mixed with facts of this machine", async () => {
    const { stdout } = await spawned(
      [program, "topology", "--config", "env.yaml", "--nodes", "nodes.yaml", "-o", "json"],
      {
        cwd: folder,
        env: { NODE_ZONE: "here" },
      },
    );
    expect(JSON.parse(stdout).nodes[0]).toHaveProperty("error.code", "FAILED_PRECONDITION");
  });

  test("take what is given over what is real, where there is one node", async () => {
    const args = ["topology", "--config", "env.yaml", "--node-name", "w1", "-o", "json"] as const;
    const run = async (...more: readonly string[]) =>
      JSON.parse((await spawned([program, ...args, ...more], { cwd: folder, env: { NODE_ZONE: "here" } })).stdout)
        .segments;
    expect(await run()).toEqual({ "t.example/zone": "here" });
    expect(await run("--env", "NODE_ZONE=there")).toEqual({ "t.example/zone": "there" });
  });
});

describe("csimux topology ends with exit code 2", () => {
  test("where the connections could not be looked at, or a node's label is not known", async () => {
    const elsewhere = await readFile(join(folder, "proxy.yaml"), "utf8");
    await writeFile(join(folder, "far.yaml"), elsewhere.replace(/configFolder: .*/, "configFolder: /no/such/folder"));
    await writeFile(join(folder, "names"), "rack-1-a\n");
    const far = await csimux("--config", "far.yaml", ...nodes.slice(0, 1), "one.json");
    expect([far.code, far.stdout]).toEqual([2, expect.stringContaining("was not looked at")]);
    const names = await csimux(...main, "--nodes", "names");
    expect([names.code, names.stdout]).toEqual([2, expect.stringContaining("does not say which labels rack-1-a has")]);
    expect((await csimux(...main, "--node-name", "rack-1-a")).code).toBe(2);
  });

  test.each<readonly [string, readonly string[]]>([
    ["without a main file", []],
    ["for a main file that is not there", ["--config", "absent.yaml"]],
    ["for an output that it does not know", [...main, "-o", "xml"]],
    ["for a fact without a value", [...main, "--env", "ZONE"]],
    ["for a list of nodes that is none", [...main, "--nodes", "class.yaml"]],
    ["for a class that is none", [...main, "--storage-class", "nodes.yaml"]],
    ["for a connection and a class at once", [...main, "--connection", "a", "--storage-class", "class.yaml"]],
    ["for two lists of nodes", [...main, ...nodes, "--kubeconfig", "config"]],
    ["for a flag that it does not know", [...main, "--zone", "z1"]],
  ])("%s", async (_, args) => {
    const { code, stdout, stderr } = await csimux(...args);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).not.toBe("");
  });
});
