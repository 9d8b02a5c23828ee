import { afterEach, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Controller, Identity, Node } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { preface } from "../../lib/csi/http2/http2-frames.ts";
import { build } from "../../scripts/build.ts";
import { csiClient, mountCapability } from "../../scripts/client.ts";
import { serveArguments, startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox, type Sandbox } from "../../scripts/sandbox.ts";
import { acknowledge, headers, ping, raw, settings } from "../csi/raw.ts";
import { pause } from "../waiting.ts";
import { codeOf, mebibytes, status } from "./world.ts";

const ending: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end();
});

async function sandboxed(): Promise<Sandbox> {
  const sandbox = await makeSandbox("off");
  ending.push(() => sandbox.remove());
  return sandbox;
}

/** A command that ends by itself; `status` is null when it did not within 10 seconds. */
async function ended(args: readonly string[]) {
  const options = { timeout: 10_000, killSignal: "SIGKILL", encoding: "utf8" } as const;
  return spawnSync(await build(), args, options);
}

test.each([
  ["is not an endpoint", () => "http://x"],
  ["lies in a folder that is not there", ({ folder }: Sandbox) => join(folder, "missing", "csi.sock")],
  ["is the first one again", ({ socket }: Sandbox) => socket],
])("csimux ends and leaves no socket when the second endpoint %s", async (_, second) => {
  const sandbox = await sandboxed();
  const { config, socket } = sandbox;
  const args = ["serve", "--mode=controller", `--config=${config}`, `--endpoint=${socket}`];
  const { status, stderr } = await ended([...args, `--endpoint=${second(sandbox)}`]);
  expect(stderr).toContain("cannot start");
  expect(status).toBe(1);
  expect(existsSync(socket)).toBe(false);
});

test("a second csimux on the socket of one that serves ends before it touches what that one has prepared", async () => {
  const sandbox = await sandboxed();
  const daemon = await startDaemon({ command: [await build()], sandbox });
  const { status, stderr } = await ended(serveArguments(sandbox));
  expect((await daemon.stop()).code).toBe(0);
  expect(stderr).toContain(`${sandbox.socket} is in use by another process`);
  // What the node logs when it has removed the preparations in its state folder.
  expect(stderr).not.toContain("volumes on this node");
  expect(await daemon.log()).toContain("volumes on this node");
  expect(status).toBe(1);
});

test("a second signal, of either kind, ends csimux without waiting, and the log says so", async () => {
  const sandbox = await sandboxed();
  const daemon = await startDaemon({ command: [await build()], sandbox });
  // A call whose message never comes: csimux would wait a little for this peer to go.
  const { socket, types } = await raw(sandbox.socket);
  socket.write(Buffer.concat([preface, settings, acknowledge, headers("localhost"), ping]));
  while (!types().includes("6/1")) await once(socket, "data");
  process.kill(daemon.pid, "SIGINT");
  const { code } = await daemon.stop();
  socket.destroy();
  expect(await daemon.log()).toContain("second signal");
  expect(code).toBe(1);
});

test("a node logs at its start that its state folder cannot be used, and serves anyway", async () => {
  const sandbox = await sandboxed();
  const stateDir = join(sandbox.config, "state");
  const daemon = await startDaemon({ command: [await build()], sandbox: { ...sandbox, stateDir } });
  expect((await daemon.stop()).code).toBe(0);
  expect(await daemon.log()).toContain(`the state folder ${stateDir} cannot be used (ENOTDIR)`);
});

test("an endpoint that other machines may reach is served with a warning, because it asks for no login", async () => {
  const sandbox = await sandboxed();
  const flags = ["--endpoint=tcp://0.0.0.0:0", "--endpoint=tcp://127.0.0.1:0"];
  const daemon = await startDaemon({ command: [await build()], sandbox, flags });
  expect((await daemon.stop()).code).toBe(0);
  const warnings = (await daemon.log()).split("\n").filter(line => line.includes("without a login"));
  expect(warnings.map(line => /"address":"0\.0\.0\.0:\d+"/.test(line))).toEqual([true]);
});

test("csimux is alive without its connection folder and without the label that its zone comes from, and says what it waits for", async () => {
  const sandbox = await sandboxed();
  await rm(sandbox.connections, { recursive: true });
  const fromRegexp = [{ topologyKey: "zone", source: "nodeLabel", label: "topology.kubernetes.io/zone" }];
  const proxy = { configFolder: sandbox.connections, nodeTopology: { type: "zone", fromRegexp } };
  await writeFile(sandbox.config, JSON.stringify({ driver: "proxy", proxy }));
  const daemon = await startDaemon({ command: [await build()], sandbox });
  const client = csiClient(sandbox.socket);
  for (let i = 0; i < 5; i++) expect((await client.call(Identity.method.probe, {})).ready).toBe(true);
  expect(await codeOf(client.call(Node.method.nodeGetInfo, {}))).toBe(status.failedPrecondition);
  client.close();
  expect((await daemon.stop()).code).toBe(0);
  const log = await daemon.log();
  expect(log).toContain('"method":"NodeGetInfo"');
  expect(log).toContain("KUBERNETES_SERVICE_HOST");
  expect(log).not.toContain("\\n    at ");
});

test.skipIf(process.getuid?.() !== 0)(
  "in a pod whose mounts the host does not see, csimux is alive but registers no node, and says what to change",
  async () => {
    const sandbox = await sandboxed();
    const folder = join(sandbox.folder, "kubelet");
    await mkdir(folder);
    const script = 'mount --bind "$0" "$0"; exec "$@"';
    const argv = [
      "unshare",
      "--mount",
      "--propagation",
      "private",
      "sh",
      "-euc",
      script,
      folder,
      await build(),
    ] as const;
    const daemon = await startDaemon({ command: argv, sandbox, env: { KUBERNETES_SERVICE_HOST: "127.0.0.1" } });
    const client = csiClient(sandbox.socket);
    expect((await client.call(Identity.method.probe, {})).ready).toBe(true);
    expect(await codeOf(client.call(Node.method.nodeGetInfo, {}))).toBe(status.failedPrecondition);
    client.close();
    expect((await daemon.stop()).code).toBe(0);
    expect(await daemon.log()).toContain("mountPropagation: Bidirectional");
  },
);

test("a signal that comes as soon as the socket answers ends csimux in order", async () => {
  const command = [await build()] as const;
  const starts = await Promise.all(
    Array.from({ length: 12 }, async () => {
      const sandbox = await sandboxed();
      const daemon = await startDaemon({ command, sandbox, pollMs: 1 });
      const { code } = await daemon.stop();
      return [code, existsSync(sandbox.socket), (await daemon.log()).includes('"stopped"')];
    }),
  );
  expect(starts).toEqual(starts.map(() => [0, false, true]));
}, 60_000);

test("calls that are running when csimux is stopped are answered", async () => {
  const sandbox = await sandboxed();
  const daemon = await startDaemon({ command: [await build()], sandbox });
  const clients = Array.from({ length: 10 }, () => csiClient(sandbox.socket));
  for (const client of clients) await client.call(Identity.method.probe, {});
  const create = (name: string) => ({
    ...{ name, parameters: { connection: "one" }, capacityRange: mebibytes(1) },
    volumeCapabilities: [mountCapability],
  });
  const calls = clients.flatMap((client, i) => [
    ...[1, 2, 3].map(j => codeOf(client.call(Controller.method.createVolume, create(`pvc-${i}-${j}`)))),
    ...[1, 2].map(() => codeOf(client.call(Controller.method.getCapacity, { parameters: { connection: "one" } }))),
  ]);
  // The client has written its requests when its own turn is over.
  await Bun.sleep(0);
  const stopped = daemon.stop();
  expect(new Set(await Promise.all(calls))).toEqual(new Set(["ok"]));
  for (const client of clients) client.close();
  expect((await stopped).code).toBe(0);
}, 30_000);

test.each(["SIGUSR1", "SIGUSR2"] as const)("%s, which means nothing here, does not end csimux", async signal => {
  const sandbox = await sandboxed();
  const daemon = await startDaemon({ command: [await build()], sandbox });
  process.kill(daemon.pid, signal);
  const client = csiClient(sandbox.socket);
  expect((await client.call(Identity.method.probe, {})).ready).toBe(true);
  client.close();
  expect((await daemon.stop()).code).toBe(0);
});

test("SIGHUP, with which supervisors ask to read files again, does not end csimux", async () => {
  const sandbox = await sandboxed();
  const daemon = await startDaemon({ command: [await build()], sandbox });
  process.kill(daemon.pid, "SIGHUP");
  while (!(await daemon.log()).includes("SIGHUP")) {
    expect(process.kill(daemon.pid, 0)).toBe(true);
    await pause(5);
  }
  expect((await daemon.stop()).code).toBe(0);
});

test("the start, a volume and its deletion run no program that locks files: only copies need the id that is held with such a lock", async () => {
  const sandbox = await sandboxed();
  const ran = join(sandbox.folder, "ran");
  await writeFile(join(sandbox.folder, "flock"), `#!/bin/sh\necho "$@" >>${ran}\nexec /usr/bin/flock "$@"\n`, {
    mode: 0o755,
  });
  const env = { PATH: `${sandbox.folder}:${process.env["PATH"]}` };
  const daemon = await startDaemon({ command: [await build()], sandbox, env });
  ending.push(() => daemon.stop());
  const client = csiClient(sandbox.socket);
  ending.push(async () => client.close());
  await client.call(Identity.method.probe, {});
  const created = { name: "a", parameters: { connection: "one" }, volumeCapabilities: [mountCapability] };
  const { volume } = await client.call(Controller.method.createVolume, created);
  const volumeId = volume?.volumeId ?? "";
  await client.call(Controller.method.deleteVolume, { volumeId });
  expect(existsSync(ran)).toBe(false);
  // A copy does take it, so the program is found.
  const source = (await client.call(Controller.method.createVolume, created)).volume?.volumeId ?? "";
  const contentSource = { type: { case: "volume" as const, value: { volumeId: source } } };
  const copy = { ...created, name: "b", parameters: { connection: "two" }, volumeContentSource: contentSource };
  await client.call(Controller.method.createVolume, copy).catch(() => {});
  expect(existsSync(ran)).toBe(true);
});
