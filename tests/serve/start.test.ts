import { afterEach, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { preface } from "../../lib/csi/http2-frames.ts";
import { build } from "../../scripts/build.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox, type Sandbox } from "../../scripts/sandbox.ts";
import { acknowledge, headers, ping, raw, settings } from "../csi/raw.ts";

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
  ["is no endpoint", () => "http://x"],
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

test("a node says when it starts that its state folder cannot be used, and serves all the same", async () => {
  const sandbox = await sandboxed();
  const stateDir = join(sandbox.config, "state");
  const daemon = await startDaemon({ command: [await build()], sandbox: { ...sandbox, stateDir } });
  expect(await daemon.log()).toContain(`the state folder ${stateDir} cannot be used (ENOTDIR)`);
  expect((await daemon.stop()).code).toBe(0);
});

test("SIGHUP, with which supervisors ask to read files again, does not end csimux", async () => {
  const sandbox = await sandboxed();
  const daemon = await startDaemon({ command: [await build()], sandbox });
  process.kill(daemon.pid, "SIGHUP");
  while (!(await daemon.log()).includes("SIGHUP")) {
    expect(process.kill(daemon.pid, 0)).toBe(true);
    await Bun.sleep(5);
  }
  expect((await daemon.stop()).code).toBe(0);
});
