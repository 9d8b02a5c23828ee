import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { status } from "@grpc/grpc-js";
import { Identity, SnapshotMetadata } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { preface } from "../../lib/csi/http2/http2-frames.ts";
import { settings } from "./raw.ts";
import { call, gate, type Rig, startRig, stream, until } from "./rig.ts";

const { probe } = Identity.method;

let rig: Rig | undefined;
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await rig?.end();
  rig = undefined;
});

/** Connects and sends at most the given bytes, then stays mute. */
async function mutePeer(path: string, bytes?: Buffer): Promise<void> {
  const socket = connect({ path });
  socket.on("error", () => {});
  sockets.push(socket);
  await new Promise<void>(resolve => socket.once("connect", () => resolve()));
  if (bytes) socket.write(bytes);
}

const hello = Buffer.concat([preface, settings]);

/** Half the limit of a stop, so that waiting for the limit is detected even on the slowest machine. */
const quickMs = 5_000;

/** How long stopping takes, in milliseconds. */
async function stopTime(server: Rig["server"], limitMs = 10_000): Promise<number> {
  const start = performance.now();
  await server.stop(limitMs);
  return performance.now() - start;
}

describe("stopping", () => {
  test("an idle server is quick and removes the socket file", async () => {
    rig = await startRig({ probe: () => ({}) });
    expect(existsSync(rig.path)).toBe(true);
    expect(await stopTime(rig.server)).toBeLessThan(quickMs);
    expect(readdirSync(rig.folder)).toEqual([]);
  });

  test("with an idle client is quick", async () => {
    rig = await startRig({ probe: () => ({}) });
    await call(rig.client(), probe, {});
    expect(await stopTime(rig.server)).toBeLessThan(quickMs);
  });

  for (const [what, bytes] of [
    ["that says nothing", undefined],
    ["that only says hello", hello],
  ] as const) {
    test(`with a mute peer ${what} is quick`, async () => {
      rig = await startRig({ probe: () => ({}) });
      await mutePeer(rig.path, bytes);
      await call(rig.client(), probe, {});
      expect(await stopTime(rig.server)).toBeLessThan(quickMs);
      expect(readdirSync(rig.folder)).toEqual([]);
    });
  }

  test("keeps 20 calls in flight, answers them all, and takes no new ones", async () => {
    const finish = gate();
    rig = await startRig({
      probe: async () => {
        await finish.opened;
        return { ready: true };
      },
    });
    const { server, path } = rig;
    await mutePeer(path, hello);
    const ours = rig.client();
    const running = Array.from({ length: 20 }, () => call(ours, probe, {}));
    await until(() => server.inFlight === 20, "20 calls in flight");
    const stopped = server.stop(10_000);
    const late = await call(rig.client(), probe, {});
    expect(late.code).toBe(status.UNAVAILABLE);
    expect(server.inFlight).toBe(20);
    finish.open();
    const answers = await Promise.all(running);
    expect(answers.filter(({ answer }) => answer?.ready === true)).toHaveLength(20);
    expect(await stopped).toEqual({ cut: 0 });
    expect(existsSync(path)).toBe(false);
  });

  test("aborts the signals of calls that exceed the limit, and counts them", async () => {
    const reasons: unknown[] = [];
    rig = await startRig({
      probe: (_request, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            reasons.push(signal.reason);
            reject(signal.reason);
          });
        }),
    });
    const { server } = rig;
    const ours = rig.client();
    const running = [call(ours, probe, {}), call(ours, probe, {})];
    await until(() => server.inFlight === 2, "2 calls in flight");
    expect(await server.stop(30)).toEqual({ cut: 2 });
    expect(reasons).toHaveLength(2);
    expect(reasons[0]).toMatchObject({ name: "CsiError", code: "unavailable" });
    for (const { code } of await Promise.all(running)) expect(code).toBe(status.UNAVAILABLE);
  });

  test("does not wait for a handler that ignores its signal", async () => {
    const never = gate();
    rig = await startRig({
      probe: async () => {
        await never.opened;
        return {};
      },
    });
    const { server } = rig;
    const outcome = call(rig.client(), probe, {});
    await until(() => server.inFlight === 1, "the call");
    expect(await stopTime(server, 20)).toBeLessThan(quickMs);
    expect((await outcome).code).not.toBe(0);
    never.open();
    await until(() => server.inFlight === 0, "the handler");
  });

  test("waits for a stream to end", async () => {
    const finish = gate();
    rig = await startRig(
      {},
      {
        async *getMetadataAllocated() {
          yield {};
          await finish.opened;
          yield {};
        },
      },
    );
    const { server } = rig;
    const { parts, ended } = stream(rig.client(), SnapshotMetadata.method.getMetadataAllocated, {});
    await until(() => parts.length === 1, "the first part");
    const stopped = server.stop(10_000);
    finish.open();
    expect((await ended).code).toBe(status.OK);
    expect(parts).toHaveLength(2);
    expect(await stopped).toEqual({ cut: 0 });
  });

  test("twice joins the first stop", async () => {
    rig = await startRig({});
    const [first, second] = await Promise.all([rig.server.stop(1000), rig.server.stop(0)]);
    expect(second).toBe(first);
  });

  test("keeps a file that has replaced its socket", async () => {
    rig = await startRig({});
    renameSync(rig.path, `${rig.path}.moved`);
    writeFileSync(rig.path, "a successor's");
    await rig.server.stop(0);
    expect(readdirSync(rig.folder).sort()).toEqual(["csi.sock", "csi.sock.moved"]);
  });
});
