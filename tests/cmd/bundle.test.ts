import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { bundleText } from "../../cmd/status/bundle.ts";
import { commonSchema } from "../../lib/config/common.ts";
import { nodeSchema } from "../../lib/config/node.ts";
import { modules } from "../../lib/drivers/index.ts";
import type { Status } from "../../lib/observe/status.ts";
import { aboutOf, type Schema, shapeOf } from "../../lib/schema/shape.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "csimux-bundle-"));
  mkdirSync(join(folder, "connections"));
  mkdirSync(join(folder, "state", "volumes"), { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const host = (env: Record<string, string> = {}) => ({
  out: () => {},
  err: () => {},
  stdin: async () => "",
  env,
  hostname: "node-1",
  colour: false,
  pause: async () => {},
});

const status: Status = {
  name: "csimux.storage",
  version: "1.2.3",
  commit: "abc",
  modes: ["controller"],
  started: "2026-01-01T00:00:00.000Z",
  now: "2026-01-01T00:01:00.000Z",
  health: [],
  connections: [],
  groups: [],
  calls: [],
  jobs: [],
};

const bundle = (log: readonly string[] = [], env: Record<string, string> = {}, more: Partial<Status> = {}) =>
  bundleText(
    { ...status, ...more },
    { config: join(folder, "proxy.yaml"), state: join(folder, "state"), prefix: "c", metrics: undefined, log },
    host(env),
  );

const connection = (name: string, value: unknown) =>
  writeFileSync(join(folder, "connections", `${name}.yaml`), typeof value === "string" ? value : stringify(value));
const mainFile = (more: object = {}) =>
  writeFileSync(
    join(folder, "proxy.yaml"),
    stringify({ driver: "proxy", proxy: { configFolder: join(folder, "connections") }, ...more }),
  );

let count = 0;
/** A word that stands nowhere else. */
const sentinel = () => `s3cret${(++count).toString(36)}x${"q".repeat(8)}`;

/** A value with a secret wherever the schema has one, and those secrets; undefined if it has none. */
function secretsIn(schema: Schema, said: string[]): unknown {
  const shape = shapeOf(schema);
  if (aboutOf(schema).secret && shape.kind !== "mapping" && shape.kind !== "free-mapping" && shape.kind !== "list") {
    const word = sentinel();
    said.push(word);
    // Keys have lines.
    return count % 3 === 0 ? `-----BEGIN X-----\n${word}\n-----END X-----\n` : word;
  }
  if (shape.kind === "mapping") {
    const entries = [...shape.keys].map(([key, inner]) => [key, secretsIn(inner, said)] as const);
    const known = entries.filter(([, value]) => value !== undefined);
    return known.length === 0 ? undefined : Object.fromEntries(known);
  }
  if (shape.kind === "free-mapping") {
    const value = secretsIn(shape.value, said);
    return value === undefined ? undefined : { NAME: value };
  }
  if (shape.kind === "list") {
    const item = secretsIn(shape.item, said);
    return item === undefined ? undefined : [item];
  }
  if (shape.kind === "either")
    return shape.options.map(option => secretsIn(option, said)).find(each => each !== undefined);
  return undefined;
}

test("a bundle holds no secret of any place that the schema knows, in any file, nor in the log, records or status", async () => {
  const all: string[] = [];
  for (const { names, schema } of modules) {
    const own = secretsIn(schema, all) as object | undefined;
    const common = secretsIn(commonSchema, all) as object | undefined;
    connection(names[0] ?? "", { driver: names[0], ...common, ...own });
  }
  const defaults = Object.assign({}, ...modules.map(({ schema }) => secretsIn(schema, all) ?? {}));
  mainFile({ ...defaults, node: secretsIn(nodeSchema, all) });
  // Sections of one name overwrite each other in the main file.
  const files = [
    join(folder, "proxy.yaml"),
    ...readdirSync(join(folder, "connections")).map(name => join(folder, "connections", name)),
  ];
  const written = files.map(file => readFileSync(file, "utf8")).join("\n");
  const said = all.filter(word => written.includes(word));
  expect(said.length).toBeGreaterThan(60);
  const log = said.map(word => JSON.stringify({ level: "warn", msg: `the server said: ${word}` }));
  const record = {
    volumeId: "v:a/b",
    context: { server: "nas", note: said[0] },
    flags: [`password=${said[1]}`],
    notes: {},
  };
  writeFileSync(join(folder, "state", "volumes", "0.json"), JSON.stringify(record));
  const lastFailure = { method: "CreateVolume", at: status.now, code: "internal", message: `it said ${said[2]}` };
  const text = await bundle(
    log,
    {},
    { connections: [{ name: "a", state: "good", suspended: false, accessibleTopology: [], inUse: 0, lastFailure }] },
  );
  expect(said.filter(word => text.includes(word))).toEqual([]);
  expect(text).toContain("the server said: ***");
  expect(text).toContain('"server": "nas"');
  expect(text).toContain("apiKey: ***");
}, 60_000);

test("a bundle shows version, status, keys, values, log and records, but no secrets", async () => {
  mainFile();
  connection("nas", {
    driver: "nfs-client",
    nfs: { shareHost: "nas.lan", shareBasePath: "/tank", controllerBasePath: "/s" },
  });
  writeFileSync(
    join(folder, "state", "volumes", "1.json"),
    JSON.stringify({ volumeId: "v:nas/pvc-1", flags: ["noatime"] }),
  );
  const text = await bundle(["a line"]);
  for (const words of [
    "csimux 1.2.3 (abc)",
    "shareHost: nas.lan",
    "a line",
    "v:nas/pvc-1",
    "noatime",
    "not served",
    '"csimux.storage"',
  ])
    expect(text).toContain(words);
  expect(text).toContain(`===== ${join(folder, "connections", "nas.yaml")} =====`);
});

test("a main file that is a connection itself is masked as one", async () => {
  const secret = "single-s3cret";
  const main = {
    driver: "freenas-api-nfs",
    httpConnection: { host: "nas.lan", password: secret },
    nfs: { shareHost: "nas.lan" },
  };
  writeFileSync(join(folder, "proxy.yaml"), stringify(main));
  const text = await bundle([`it said ${secret}`]);
  expect(text).not.toContain(secret);
  expect(text).toContain("host: nas.lan");
});

test("of an invalid YAML file, a bundle shows only the keys, and of a mistyped key no value", async () => {
  mainFile();
  connection("broken", 'driver: nfs-client\nhttpConnection:\n  password: "unclosed-s3cret\n  host: nas.lan\n');
  connection("typo", { driver: "freenas-api-nfs", httpConnection: { host: "nas.lan", pasword: "typed-s3cret" } });
  const text = await bundle();
  expect(text).not.toContain("s3cret");
  expect(text).toContain("password:");
  expect(text).toContain("pasword: ***");
});

test("a bundle shows no secret that YAML takes for something else, nor a comment or a login", async () => {
  mainFile();
  const files = {
    anchor: "  password: &planted1x\n",
    tag: "  password: !planted2x\n",
    mapping: "  password: {planted3x}\n",
    beside: "  { host: nas.lan, password:planted0x }\n",
    glued: "  inner: {password:planted4x}\n",
    lines: "  password: |\n    planted5x\n    planted6x\n",
    login: 'zfs:\n  datasetProperties: { "a:b": https://user:planted7x@nas.lan } # planted8x\n',
  };
  for (const [name, more] of Object.entries(files))
    connection(name, `driver: freenas-api-nfs\nhttpConnection:\n${more}`);
  const text = await bundle();
  expect(text).not.toContain("planted");
  expect(text).toContain("a:b: https://***@nas.lan");
});

test("secrets that come from the environment are masked by their values", async () => {
  mainFile();
  connection("nas", { driver: "freenas-api-nfs", httpConnection: { host: "nas.lan", apiKey: "${env:NAS_KEY}" } });
  const text = await bundle(["sent the-real-key to nas.lan"], { NAS_KEY: "the-real-key" });
  expect(text).toContain("sent *** to nas.lan");
});

test("a bundle says what it could not read instead of failing", async () => {
  const text = await bundle();
  expect(text).toContain("proxy.yaml =====\ncannot be read (ENOENT)");
  mainFile();
  rmSync(join(folder, "connections"), { recursive: true });
  expect(await bundle()).toContain("cannot be read (ENOENT); nodes have none");
});

test("a secret that was typed below another key is in no part of the report", async () => {
  mainFile();
  connection(
    "nas",
    "driver: freenas-api-nfs\nhttpConnection: { host: nas, protocol: 1-planted-key, port: planted-word, apiKey: 1-good-key }\n",
  );
  const text = await bundle(["the log repeats 1-planted-key and planted-word"]);
  expect(text).toContain("protocol: ***");
  expect(text).not.toContain("planted");
});
