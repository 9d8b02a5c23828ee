import { expect, test } from "bun:test";
import { existsSync, statSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Registration } from "../../lib/csi/gen/pluginregistration/v1/registration_pb.ts";
import { build } from "../../scripts/build.ts";
import { csiClient } from "../../scripts/client.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox } from "../../scripts/sandbox.ts";
import { pause } from "../waiting.ts";
import { World } from "./world.ts";

/** A csimux that registers itself in a folder as kubelet watches it, and what kubelet would do there. */
async function registering() {
  const sandbox = await makeSandbox("off", ["one"]);
  const folder = join(sandbox.folder, "registry");
  await mkdir(folder);
  const socket = join(folder, "csimux.example-reg.sock");
  const flags = ["--plugin-registration-socket", socket, "--kubelet-registration-path", "/host/csi.sock"];
  const start = async () =>
    startDaemon({ command: [await build()], sandbox, flags: [...flags, "--health-address", "127.0.0.1:0"] });
  const world = await World.on(sandbox, start);
  const told = async (registered: boolean, error = "") => {
    const client = csiClient(socket);
    try {
      await client.call(Registration.method.notifyRegistrationStatus, { pluginRegistered: registered, error });
    } finally {
      client.close();
    }
  };
  const info = async () => {
    const client = csiClient(socket);
    try {
      return await client.call(Registration.method.getInfo, {});
    } finally {
      client.close();
    }
  };
  const health = async (path: string) => {
    const port = await until(
      async () => /"serving health probes","address":"127\.0\.0\.1:(\d+)"/.exec(await world.daemon.log())?.[1],
    );
    return (await fetch(`http://127.0.0.1:${port}${path}`)).status;
  };
  await until(async () => existsSync(socket) || undefined);
  return { world, socket, told, info, health };
}

async function until<T>(look: () => Promise<T | undefined>): Promise<T> {
  const limit = Date.now() + 30_000;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (Date.now() > limit) throw new Error("it did not come");
    await pause(20);
  }
}

test("the node plugin makes itself known to kubelet, is ready once it was taken, and takes the socket away at its end", async () => {
  const { world, socket, told, info, health } = await registering();
  try {
    const { type, name, endpoint, supportedVersions } = await info();
    expect({ type, name, endpoint, supportedVersions }).toEqual({
      type: "CSIPlugin",
      name: "csimux.example",
      endpoint: "/host/csi.sock",
      supportedVersions: ["1.0.0"],
    });
    expect(statSync(socket).mode & 0o777).toBe(0o600);
    expect([await health("/healthz"), await health("/readyz"), await health("/")]).toEqual([200, 503, 404]);
    await told(true);
    expect([await health("/healthz"), await health("/readyz")]).toEqual([200, 200]);
    expect((await world.daemon.stop()).code).toBe(0);
    expect(existsSync(socket)).toBe(false);
  } finally {
    await world.end();
  }
}, 60_000);

test("csimux registers again through a new socket after kubelet rejected the driver, and stays alive meanwhile", async () => {
  const { world, socket, told, info, health } = await registering();
  try {
    const before = statSync(socket).mtimeMs;
    await told(false, "NodeGetInfo: the label of the node is not there yet");
    expect(await health("/healthz")).toBe(200);
    await until(async () => (statSync(socket, { throwIfNoEntry: false })?.mtimeMs ?? before) !== before || undefined);
    expect((await info()).name).toBe("csimux.example");
    await told(true);
    expect(await health("/readyz")).toBe(200);
    expect(await world.daemon.log()).toContain("the label of the node is not there yet");
  } finally {
    await world.end();
  }
}, 60_000);

test("csimux is not alive once its registration socket was removed, because kubelet has no driver until it starts again", async () => {
  const { world, socket, told, info, health } = await registering();
  try {
    await told(true);
    expect([await health("/healthz"), await health("/readyz")]).toEqual([200, 200]);
    await rm(socket);
    expect([await health("/healthz"), await health("/readyz")]).toEqual([503, 503]);
    // As kubelet does after three failed probes.
    expect((await world.daemon.stop()).code).toBe(0);
    await world.restart();
    await until(async () => existsSync(socket) || undefined);
    expect((await info()).name).toBe("csimux.example");
  } finally {
    await world.end();
  }
}, 60_000);
