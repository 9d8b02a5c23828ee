import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Node } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { patternCompiler } from "../../lib/topology/pattern.ts";
import { build } from "../../scripts/build.ts";
import { csiClient } from "../../scripts/client.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox } from "../../scripts/sandbox.ts";
import { spawned } from "../../scripts/spawned.ts";

let program = "";
let folder = "";

beforeAll(async () => {
  program = await build();
  folder = await mkdtemp(join(tmpdir(), "csimux-hostile-"));
}, 60_000);

afterAll(() => rm(folder, { recursive: true, force: true }));

async function mainFile(name: string, rule: object): Promise<string> {
  const file = join(folder, `${name}.yaml`);
  const nodeTopology = { type: "zone", prefix: "t.example", fromRegexp: [{ topologyKey: "zone", ...rule }] };
  await writeFile(file, JSON.stringify({ driver: "proxy", proxy: { configFolder: folder, nodeTopology } }));
  return file;
}

/** The failure that `csimux topology` prints; undefined when it succeeds. Fails when it takes more than five seconds. */
async function failureWith(
  name: string,
  rule: object,
  ...flags: readonly string[]
): Promise<{ readonly code: string; readonly message: string } | undefined> {
  const config = await mainFile(name, rule);
  const argv = ["topology", "--config", config, "--node-name", "w1", "-o", "json", ...flags] as const;
  const { code, stdout } = await spawned([program, ...argv], { timeoutMs: 5_000 });
  expect([0, 1]).toContain(code);
  return JSON.parse(stdout).error;
}

/** Patterns that never end, or use all memory, in engines that backtrack or unroll. */
const patterns = [
  "(a+)+$",
  "(a|aa)+",
  "(a*)*b",
  "(.*)(.*)(.*)(.*)(.*)(.*)x",
  "(x+x+)+y",
  "(a?){900}a{900}",
  "((((a{1,9}){1,9}){1,9}){1,9}){1,9}",
  `${"(".repeat(400)}a${")".repeat(400)}`,
  "(?:a{1000}){1000}",
];

describe("a rule with a pattern known to be slow in other engines", () => {
  test.each(patterns)("%s matches long input at once, or is refused", async pattern => {
    const compile = await patternCompiler([pattern]);
    const from = performance.now();
    try {
      const { match } = compile(pattern);
      for (const input of [`${"a".repeat(65_535)}!`, "a".repeat(65_536), "x".repeat(65_536)]) match(input);
    } catch (error) {
      expect((error as Error).message).toMatch(/too large|repeat|longer|nest/);
    }
    expect(performance.now() - from).toBeLessThan(4_000);
  });

  test("does not stop the executable, and has a plain answer", async () => {
    const rule = { source: "env", envName: "LONG", regex: "(a+)+$" };
    const error = await failureWith("redos", rule, "--env", `LONG=${"a".repeat(60_000)}!`);
    expect(error?.code).toBe("FAILED_PRECONDITION");
    expect(error?.message.length).toBeLessThan(500);
  });

  test.each(["(?=a)b", "(a)\\1", "(?<!x)y"])(
    "%s, which RE2 does not know, stops the start with a reason",
    async pattern => {
      const error = await failureWith("unsupported", { source: "nodeName", regex: pattern });
      expect(error?.code).toBe("CONFIG");
      expect(error?.message).toContain("RE2");
    },
  );

  test("is refused if it is too long", async () => {
    const error = await failureWith("long", { source: "nodeName", regex: "a".repeat(5_000) });
    expect(error?.code).toBe("CONFIG");
  });
});

describe("a file that names the zone", () => {
  const fromFile = (name: string, file: string) => failureWith(name, { source: "file", file });

  test("of ten megabytes is refused, with its name", async () => {
    const file = join(folder, "large");
    await writeFile(file, Buffer.alloc(10 << 20, "a"));
    const error = await fromFile("size", file);
    expect(error?.code).toBe("FAILED_PRECONDITION");
    expect(error?.message).toContain(`${file} is larger than 65536 bytes`);
  });

  test("that is a pipe without a writer is refused at once", async () => {
    const file = join(folder, "pipe");
    execFileSync("mkfifo", [file]);
    const error = await fromFile("fifo", file);
    expect(error?.code).toBe("FAILED_PRECONDITION");
    expect(error?.message).toContain("not a regular file");
  });

  test.each(["/dev/zero", "/dev/tty", "/proc/self", "/"])("is not %s", async file => {
    expect((await fromFile("special", file))?.code).toBe("FAILED_PRECONDITION");
  });

  test("may be a file without a size, as in /proc", async () => {
    const rule = { source: "file", file: "/proc/sys/kernel/ostype", template: "{match:0}" };
    expect(await failureWith("proc", rule)).toBeUndefined();
  });

  test("with bytes that are not text is refused, and only a part of them is quoted", async () => {
    const file = join(folder, "binary");
    await writeFile(file, Buffer.alloc(60_000, 0xff));
    const error = await fromFile("binary", file);
    expect(error?.code).toBe("FAILED_PRECONDITION");
    expect(error?.message.length).toBeLessThan(500);
  });
});

test("NodeGetInfo fails while the file is a pipe, and succeeds once it is a file, without a restart", async () => {
  const sandbox = await makeSandbox("off", []);
  const file = join(sandbox.folder, "zone");
  execFileSync("mkfifo", [file]);
  const nodeTopology = {
    type: "zone",
    prefix: "t.example",
    fromRegexp: [{ topologyKey: "zone", source: "file", file }],
  };
  const proxy = { configFolder: sandbox.connections, nodeTopology };
  await writeFile(sandbox.config, JSON.stringify({ driver: "proxy", proxy }));
  const daemon = await startDaemon({ command: [program], sandbox });
  const client = csiClient(sandbox.socket);
  const before = await client.call(Node.method.nodeGetInfo, {}, 5_000).catch((error: unknown) => error);
  expect(before).toHaveProperty("code", 9);
  await rm(file);
  await mkdir(file);
  const meanwhile = await client.call(Node.method.nodeGetInfo, {}, 5_000).catch((error: unknown) => error);
  expect(meanwhile).toHaveProperty("code", 9);
  await rm(file, { recursive: true });
  await writeFile(file, "z1 \r\n");
  const after = await client.call(Node.method.nodeGetInfo, {}, 5_000);
  expect(after.accessibleTopology?.segments).toEqual({ "t.example/zone": "z1" });
  client.close();
  await daemon.stop();
  await sandbox.remove();
}, 60_000);
