import { afterEach, describe, expect, test } from "bun:test";
import { createServer } from "node:net";
import { Identity } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { flag, frameType, makeFrame, preface } from "../../lib/csi/http2/http2-frames.ts";
import { admit } from "../../lib/csi/http2/http2-listener.ts";
import { acknowledge, answered, block, body, headers, kubelet, ping, raw, settings } from "./raw.ts";
import { call, gate, type Rig, startRig, until } from "./rig.ts";

const { probe } = Identity.method;

let rig: Rig | undefined;
afterEach(async () => {
  await rig?.end();
  rig = undefined;
});

async function serve(): Promise<Rig> {
  rig = await startRig({ probe: () => ({ ready: true }) });
  return rig;
}

describe("a client that", () => {
  for (const authority of ["localhost", "/csi/csi.sock"]) {
    test(`sends its request byte by byte is served (${authority})`, async () => {
      const { path } = await serve();
      const { socket, types } = await raw(path);
      for (const byte of Buffer.concat([preface, settings, headers(authority), acknowledge, body])) {
        socket.write(Buffer.from([byte]));
        if (byte % 16 === 0) await new Promise(resolve => setImmediate(resolve));
      }
      await until(() => answered(types()), "the answer");
      expect(types().filter(type => type === "3/0" || type === "7/0")).toEqual([]);
      socket.destroy();
    });

    test(`waits for SETTINGS before its request, and pings meanwhile, is served (${authority})`, async () => {
      const { path } = await serve();
      const { socket, types } = await raw(path);
      socket.write(Buffer.concat([preface, settings]));
      await until(() => types().includes("4/0"), "the SETTINGS of the server");
      socket.write(Buffer.concat([acknowledge, ping]));
      await until(() => types().includes("6/1"), "the answer to the ping");
      socket.write(Buffer.concat([headers(authority), body]));
      await until(() => answered(types()), "the answer");
      expect(types().filter(type => type === "6/1")).toHaveLength(1);
      expect(types().filter(type => type === "3/0" || type === "7/0")).toEqual([]);
      socket.destroy();
    });
  }

  for (const [authority, shown] of [
    ["localhost", "localhost"],
    ["/csi/csi.sock", "c"],
  ] as const) {
    test(`reaches the server without the frames that were answered before (${authority})`, async () => {
      rig = await startRig({});
      const path = `${rig.path}.admit`;
      let received = Buffer.alloc(0);
      const listener = createServer(socket =>
        admit(socket, connection => {
          connection.on("data", (chunk: Buffer) => {
            received = Buffer.concat([received, chunk]);
          });
        }),
      );
      await new Promise<void>(resolve => listener.listen({ path }, resolve));
      const { socket } = await raw(path);
      socket.write(Buffer.concat([preface, settings, ping, acknowledge, headers(authority), body, acknowledge]));
      const expected = Buffer.concat([preface, settings, headers(shown), body, acknowledge]);
      await until(() => received.length >= expected.length, "the bytes");
      expect(received.equals(expected)).toBe(true);
      socket.destroy();
      await new Promise(resolve => listener.close(resolve));
    });
  }

  test("starts a call after GOAWAY does not reach a handler", async () => {
    let entries = 0;
    const finish = gate();
    rig = await startRig({
      probe: async () => {
        entries++;
        await finish.opened;
        return {};
      },
    });
    const { server, path } = rig;
    const { socket, types } = await raw(path);
    socket.write(Buffer.concat([preface, settings, acknowledge, headers("localhost"), body]));
    await until(() => server.inFlight === 1, "the call");
    const stopped = server.stop(10_000);
    await until(() => types().includes("7/0"), "GOAWAY");
    const second = makeFrame(frameType.headers, flag.endHeaders, 3, block("localhost"));
    socket.write(Buffer.concat([second, makeFrame(0, 1, 3, Buffer.alloc(5)), ping]));
    await until(() => types().includes("6/1"), "the answer to the ping");
    finish.open();
    await stopped;
    expect(entries).toBe(1);
    expect(answered(types())).toBe(true);
  });

  test("completes its request as soon as the stop began is answered", async () => {
    rig = await startRig({ probe: () => ({}) });
    const { server, path } = rig;
    const { socket, types } = await raw(path);
    socket.write(Buffer.concat([preface, settings, acknowledge, headers("localhost"), ping]));
    await until(() => types().includes("6/1"), "the answer to the ping");
    const stopped = server.stop(10_000);
    socket.write(body);
    await until(() => answered(types()), "the answer");
    expect(await stopped).toEqual({ cut: 0 });
  });

  test("completes its request only after the last calls were taken does not reach a handler", async () => {
    let entries = 0;
    rig = await startRig({
      probe: () => {
        entries++;
        return {};
      },
    });
    const { server, path } = rig;
    const { socket, types } = await raw(path);
    socket.write(Buffer.concat([preface, settings, acknowledge, headers("localhost"), ping]));
    await until(() => types().includes("6/1"), "the answer to the ping");
    const stopped = server.stop(10_000);
    await until(() => types().includes("7/0"), "GOAWAY");
    socket.write(body);
    await until(() => answered(types()), "the refusal");
    await stopped;
    expect(entries).toBe(0);
  });

  test("disconnects aborts the signal of its call, whether or not its authority is a path", async () => {
    let reason: unknown;
    rig = await startRig({
      probe: (_request, { signal }) =>
        new Promise(resolve => {
          signal.addEventListener("abort", () => {
            reason = signal.reason;
            resolve({});
          });
        }),
    });
    const { server, path } = rig;
    const { socket } = await raw(path);
    socket.write(Buffer.concat([preface, settings, acknowledge, headers(kubelet), body]));
    await until(() => server.inFlight === 1, "the call");
    socket.destroy();
    await until(() => server.inFlight === 0, "the handler to end");
    expect(reason).toMatchObject({ name: "CsiError", code: "aborted" });
  });

  test("never makes a request does not hold the stop, and its connection is closed", async () => {
    const { path, server } = await serve();
    const { socket } = await raw(path);
    const closed = new Promise<void>(resolve => socket.once("close", () => resolve()));
    socket.write(Buffer.concat([preface, settings]));
    const start = performance.now();
    await server.stop(10_000);
    expect(performance.now() - start).toBeLessThan(5_000);
    await closed;
  });

  test("pings endlessly before its first request is passed to the server", async () => {
    const { path, client } = await serve();
    const { socket } = await raw(path);
    socket.on("error", () => {});
    socket.write(Buffer.concat([preface, settings, ...Array.from({ length: 20_000 }, () => ping)]));
    expect((await call(client(), probe, {})).code).toBe(0);
    socket.destroy();
  });
});
