import { afterEach, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, rename, stat, symlink, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { Controller, Identity, Node } from "../../lib/csi/services.ts";
import { build } from "../../scripts/build.ts";
import { csiClient, mountCapability } from "../../scripts/client.ts";
import { makeSandbox, type Sandbox } from "../../scripts/sandbox.ts";
import { passing, pause } from "../waiting.ts";
import { status, World } from "./world.ts";

const ending: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end();
});

/** The executable with exactly these arguments and this environment, and what it writes to stderr. */
async function run(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const child = spawn(await build(), args, {
    env: { PATH: process.env["PATH"] ?? "", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => {
      text += chunk;
    });
  const exited = once(child, "exit") as Promise<[number | null]>;
  ending.push(async () => {
    child.kill("SIGKILL");
    await exited;
  });
  return { child, exited: exited.then(([code]) => code), output: () => text };
}

async function sandboxed(): Promise<Sandbox> {
  const sandbox = await makeSandbox("off");
  ending.push(() => sandbox.remove());
  return sandbox;
}

/** As `run`, once it listens. */
async function serving(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const started = await run(args, env);
  const until = Date.now() + 20_000;
  while (!started.output().includes("listening")) {
    if (Date.now() > until || started.child.exitCode !== null)
      throw new Error(`it does not serve:\n${started.output()}`);
    await pause(5);
  }
  return started;
}

function client(sandbox: Sandbox) {
  const made = csiClient(sandbox.socket);
  ending.push(async () => made.close());
  return made;
}

test("the flags of the existing chart, without a subcommand, serve the controller on the socket with mode 0600", async () => {
  const sandbox = await sandboxed();
  const { child, exited, output } = await serving([
    "--csi-version=1.5.0",
    "--csi-name=org.democratic-csi.mux",
    `--driver-config-file=${sandbox.config}`,
    "--log-level=info",
    "--csi-mode=controller",
    `--server-socket=${sandbox.socket}`,
    "--some-flag-of-tomorrow=1",
  ]);
  const csi = client(sandbox);
  expect((await csi.call(Identity.method.getPluginInfo, {})).name).toBe("org.democratic-csi.mux");
  expect((await stat(sandbox.socket)).mode & 0o777).toBe(0o600);
  const node = await csi.call(Node.method.nodeGetInfo, {}).catch((error: { code: number }) => error.code);
  expect(node).toBe(12);
  const probe = await run(["probe", "--csi-version=1.5.0", `--csi-address=${sandbox.socket}`]);
  expect(await probe.exited).toBe(0);
  child.kill("SIGTERM");
  expect(await exited).toBe(0);
  expect(await stat(sandbox.socket).catch(() => "gone")).toBe("gone");
  expect(output()).toContain("--some-flag-of-tomorrow=1");
});

test("the same from the environment: DEMOCRATIC_CSI_*, CSI_NODE_ID, and both modes from a repeated flag", async () => {
  const sandbox = await sandboxed();
  await serving(["--csi-mode=node", "--csi-mode=controller", `--state-dir=${sandbox.stateDir}`], {
    DEMOCRATIC_CSI_DRIVER_CONFIG_FILE: sandbox.config,
    DEMOCRATIC_CSI_CSI_NAME: "from.environment",
    DEMOCRATIC_CSI_SERVER_SOCKET: `unix://${sandbox.socket}`,
    CSI_NODE_ID: "w1",
  });
  const csi = client(sandbox);
  expect((await csi.call(Identity.method.getPluginInfo, {})).name).toBe("from.environment");
  expect((await csi.call(Node.method.nodeGetInfo, {})).nodeId).toBe("n=w1");
  expect((await csi.call(Controller.method.controllerGetCapabilities, {})).capabilities.length).toBeGreaterThan(8);
});

test("modes after one flag, as the original takes them, and a driver name that ends in a digit", async () => {
  const sandbox = await sandboxed();
  const { output } = await serving([
    ...["--csi-mode", "controller", "node", "--csi-name", "org.democratic-csi.nfs2"],
    ...["--driver-config-file", sandbox.config, "--server-socket", sandbox.socket, "--state-dir", sandbox.stateDir],
  ]);
  expect(output()).toContain('"name":"org.democratic-csi.nfs2","modes":["controller","node"]');
});

test("CSI_ENDPOINT is honoured, and an old --csi-version advertises no newer capability", async () => {
  const sandbox = await sandboxed();
  await serving(["serve", `--config=${sandbox.config}`, "--mode=controller", "--csi-version=1.0.0"], {
    CSI_ENDPOINT: `unix://${sandbox.socket}`,
  });
  const csi = client(sandbox);
  const { capabilities } = await csi.call(Controller.method.controllerGetCapabilities, {});
  const types = capabilities.map(each => (each.type.case === "rpc" ? each.type.value.type : 0));
  expect(types).toContain(1);
  expect(types).not.toContain(9);
  expect(types).not.toContain(13);
});

test.each([
  ["no main file", ["serve", "--endpoint=/nowhere/x.sock"], 2, "--config"],
  ["a main file that is not there", ["serve", "--config=/nowhere/proxy.yaml"], 1, "/nowhere/proxy.yaml"],
  ["a bad mode", ["serve", "--config=x", "--mode=both"], 2, "both"],
  ["a driver name that CSI refuses", ["serve", "--config=x", "--name=csi_v1"], 2, "csi_v1"],
  ["an empty state folder", ["serve", "--config=x", "--state-dir="], 2, "--state-dir"],
  ["an address without a port", ["--driver-config-file=x", "--server-address=127.0.0.1"], 2, "--server-port"],
  ["an unknown command", ["sevre", "--config=x"], 2, "sevre"],
  ["a command after its flags", ["--config=x", "validate"], 2, "does not come first"],
] as const)("%s ends at once with a clear word", async (_, args, code, word) => {
  const { exited, output } = await run(args);
  expect(await exited).toBe(code);
  expect(output()).toContain(word);
  expect(output()).not.toContain("    at ");
});

test("a stale socket is replaced, a live one is not stolen, another file is left alone", async () => {
  const sandbox = await sandboxed();
  const args = ["serve", `--config=${sandbox.config}`, `--endpoint=unix://${sandbox.socket}`, "--mode=controller"];
  const first = await serving(args);
  const csi = client(sandbox);
  await csi.call(Identity.method.probe, {});
  const second = await run(args);
  expect(await second.exited).toBe(1);
  expect(second.output()).toContain(sandbox.socket);
  expect((await csi.call(Identity.method.probe, {})).ready).toBe(true);
  first.child.kill("SIGKILL");
  await first.exited;
  await serving(args);
  expect((await client(sandbox).call(Identity.method.probe, {})).ready).toBe(true);
  const other = join(sandbox.folder, "precious");
  await writeFile(other, "data");
  const third = await run(["serve", `--config=${sandbox.config}`, `--endpoint=unix://${other}`, "--mode=controller"]);
  expect(await third.exited).toBe(1);
  expect((await stat(other)).size).toBe(4);
});

test("SIGTERM finishes the calls that run, although another peer keeps a mute connection", async () => {
  const world = await World.start("off", ["one"]);
  ending.push(() => world.end());
  const peer = connect({ path: world.sandbox.socket });
  await once(peer, "connect");
  const calls = Array.from({ length: 20 }, (_, i) => world.create(`pvc-${i}`));
  // The calls run when the signal comes.
  await passing(1);
  const from = performance.now();
  const stopped = world.daemon.stop();
  const answers = await Promise.allSettled(calls);
  for (const answer of answers) {
    if (answer.status === "rejected") expect((answer.reason as { code: number }).code).toBe(status.unavailable);
  }
  expect((await stopped).code).toBe(0);
  expect(performance.now() - from).toBeLessThan(10_000);
  peer.destroy();
  await world.restart();
  const listed = (await world.controller("listVolumes", {})).entries.length;
  expect(listed).toBeGreaterThanOrEqual(answers.filter(answer => answer.status === "fulfilled").length);
});

test("a Secret volume that is swapped by its symlink takes effect at the next call", async () => {
  const sandbox = await makeSandbox("off", []);
  ending.push(() => sandbox.remove());
  const publish = async (generation: string, base: string) => {
    await mkdir(join(sandbox.connections, `..${generation}`));
    await mkdir(base, { recursive: true });
    const text = [
      "driver: local-hostpath",
      "local-hostpath:",
      `  shareBasePath: ${base}`,
      `  controllerBasePath: ${base}`,
      "",
    ];
    await writeFile(join(sandbox.connections, `..${generation}`, "c.yaml"), text.join("\n"));
    await symlink(`..${generation}`, join(sandbox.connections, "..data_tmp"));
    await rename(join(sandbox.connections, "..data_tmp"), join(sandbox.connections, "..data"));
  };
  await publish("a", join(sandbox.folder, "base-a"));
  await symlink("..data/c.yaml", join(sandbox.connections, "c.yaml"));
  await serving(["serve", `--config=${sandbox.config}`, `--endpoint=unix://${sandbox.socket}`, "--mode=controller"]);
  const csi = client(sandbox);
  const path = async (name: string) => {
    const request = { name, volumeCapabilities: [mountCapability], parameters: { connection: "c" } };
    return (await csi.call(Controller.method.createVolume, request)).volume?.volumeContext["path"];
  };
  expect(await path("x")).toBe(join(sandbox.folder, "base-a/v/x"));
  await publish("b", join(sandbox.folder, "base-b"));
  expect(await path("x")).toBe(join(sandbox.folder, "base-b/v/x"));
});
