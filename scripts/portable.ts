import { mkdir, rename, rm } from "node:fs/promises";
import { hostname } from "node:os";
import { Controller, Identity } from "../lib/csi/gen/csi/v1/csi_pb.ts";
import type { Argv } from "../lib/io/runner.ts";
import { defines } from "./build.ts";
import { csiClient, mountCapability } from "./client.ts";
import { startDaemon } from "./daemon.ts";
import { makeSandbox, type Sandbox } from "./sandbox.ts";
import { root, spawned, tool } from "./spawned.ts";
import { nothing, plus, type Tally, tallyLine } from "./tally.ts";

const denoVersion = "2.9.6";

/** A step of the smoke test; rejects on failure. */
type Step = readonly [title: string, run: () => Promise<void>];

function expectEqual(actual: unknown, expected: unknown): void {
  if (actual !== expected) throw new Error(`expected ${JSON.stringify(expected)}, got ${JSON.stringify(actual)}`);
}

/** The tests of a runtime: the command line without gRPC, and one volume through the daemon. */
const steps = (command: Argv, sandbox: Sandbox): readonly Step[] => [
  [
    "encodes a handle",
    async () => {
      const { code, stdout } = await spawned([...command, "id", "encode", "volume", "one", "pvc-1"]);
      expectEqual(code, 0);
      expectEqual(stdout.trim(), "v:one/pvc-1");
    },
  ],
  [
    "finds the sandbox valid",
    async () => {
      const { code, stdout, stderr } = await spawned([...command, "validate", "--config", sandbox.config]);
      if (code !== 0) throw new Error(`exit code ${code}: ${stdout}${stderr}`);
    },
  ],
  ["serves: Probe, create, delete, drained stop", () => serves(command, sandbox)],
];

async function serves(command: Argv, sandbox: Sandbox): Promise<void> {
  const daemon = await startDaemon({ command, sandbox });
  const client = csiClient(sandbox.socket);
  try {
    await client.call(Identity.method.probe, {});
    const { volume } = await client.call(Controller.method.createVolume, {
      name: `pvc-${hostname()}`,
      parameters: { connection: "two" },
      volumeCapabilities: [mountCapability],
    });
    expectEqual(volume?.volumeId.startsWith("v:two/"), true);
    await client.call(Controller.method.deleteVolume, { volumeId: volume?.volumeId ?? "" });
  } finally {
    client.close();
    const { code } = await daemon.stop();
    if (code !== 0) console.log(await daemon.log());
    expectEqual(code, 0);
  }
}

/** Node 20 does not read TypeScript, so it gets one file bundled from the same sources. */
async function nodeCommand(): Promise<Argv> {
  const outfile = `${root}/.cache/csimux-node-${process.pid}.mjs`;
  const result = await spawned([
    tool("bun"),
    "build",
    "--target=node",
    ...(await defines()),
    "cmd/csimux.ts",
    `--outfile=${outfile}`,
  ]);
  if (result.code !== 0) throw new Error(`bun build --target=node failed:\n${result.stderr}`);
  return ["node", outfile];
}

/**
 * Deno runs the sources directly. It is downloaded here and not by `npm ci`, because it is larger than all other packages
 * together and only this test needs it. Undefined if it cannot be installed.
 */
async function denoCommand(): Promise<Argv | undefined> {
  const folder = `${root}/.cache/deno-${denoVersion}`;
  const deno = `${folder}/node_modules/.bin/deno`;
  const run: Argv = [deno, "run", "--allow-all", "--no-lock", "--node-modules-dir=manual", `${root}/cmd/csimux.ts`];
  if ((await spawned([deno, "--version"])).code === 0) return run;
  const fresh = `${folder}.${process.pid}`;
  await mkdir(fresh, { recursive: true });
  const install = [
    "install",
    "--no-save",
    "--no-audit",
    "--no-fund",
    "--prefix",
    fresh,
    `deno@${denoVersion}`,
  ] as const;
  const { code } = await spawned(["npm", ...install], { cwd: fresh });
  if (code === 0) await rename(fresh, folder).catch(() => {});
  await rm(fresh, { recursive: true, force: true });
  return (await spawned([deno, "--version"])).code === 0 ? run : undefined;
}

async function smoke(runtime: string, command: Argv): Promise<Tally> {
  const sandbox = await makeSandbox("node");
  let total = nothing;
  for (const [title, run] of steps(command, sandbox)) {
    const problem = await run().then(
      () => undefined,
      error => String(error),
    );
    console.log(
      `${problem === undefined ? "ok  " : "FAIL"} under ${runtime}: ${title}${problem === undefined ? "" : `\n     ${problem}`}`,
    );
    total = plus(total, problem === undefined ? { ...nothing, passed: 1 } : { ...nothing, failed: 1 });
  }
  await sandbox.remove();
  return total;
}

/** Runs the same sources under Node and Deno: the small commands, and one volume through the daemon. */
async function portable(): Promise<Tally> {
  await mkdir(`${root}/.cache`, { recursive: true });
  const node = await nodeCommand();
  const onNode = await smoke("Node", node).finally(() => rm(node[1] ?? "", { force: true }));
  const deno = await denoCommand();
  if (deno) return plus(onNode, await smoke("Deno", deno));
  console.log("the smoke test under Deno DID NOT RUN: the npm package deno could not be installed");
  return plus(onNode, { ...nothing, skipped: 1 });
}

if (import.meta.main) {
  const tally = await portable();
  console.log(tallyLine(tally));
  process.exitCode = tally.failed > 0 ? 1 : 0;
}
