import { afterEach, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { connectivityState } from "@grpc/grpc-js";
import { Identity } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { preface } from "../../lib/csi/http2/http2-frames.ts";
import { Http2Listener } from "../../lib/csi/http2/http2-listener.ts";
import { GrpcServer } from "../../lib/csi/server.ts";
import { acknowledge, answered, body, headers, raw, settings } from "./raw.ts";
import { call, connectTo, temporaryFolder, until } from "./rig.ts";

// Clients of a socket that open a connection and then say nothing: the process has a limited number of descriptors.

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** The path of a socket in a folder of its own. */
function place(): string {
  const folder = temporaryFolder();
  ends.push(() => rmSync(folder, { recursive: true }));
  return `${folder}/csi.sock`;
}

test("of clients that never send a request a few may stay, and none that has sent one is closed for them", async () => {
  const path = place();
  const admitted: Duplex[] = [];
  const listener = new Http2Listener(connection => void admitted.push(connection), 50);
  await listener.listen(path);
  const sockets: Socket[] = [];
  const opened = (): Socket => connect({ path }).resume();
  const asking = opened();
  ends.push(() => {
    for (const each of [asking, ...sockets, ...admitted]) each.destroy();
    return listener.close();
  });
  asking.write(Buffer.concat([preface, settings, acknowledge, headers("localhost"), body]));
  await until(() => admitted.length === 1, "the request");
  for (let n = 0; n < 39; n++) sockets.push(opened());
  await until(() => sockets.filter(({ destroyed }) => destroyed).length === 7, "the end of those beyond 32");
  expect([asking.destroyed, admitted[0]?.destroyed]).toEqual([false, false]);
});

test("a client that does not answer a ping any more is closed, and an idle one that does stays", async () => {
  const path = place();
  const server = new GrpcServer({ maxRequestBytes: 1 << 20 }, { everyMs: 100, withinMs: 2_000 });
  server.mount(Identity, { probe: () => ({}) });
  await server.listen({ kind: "unix", path });
  ends.push(() => server.stop(0));
  const idle = ["localhost", "/csi/csi.sock"].map(authority =>
    connectTo(`unix:${path}`, { "grpc.default_authority": authority }),
  );
  ends.push(() => idle.map(client => client.close()));
  for (const client of idle) expect((await call(client, Identity.method.probe, {})).code).toBe(0);
  const { socket, types } = await raw(path);
  ends.push(() => socket.destroy());
  socket.write(Buffer.concat([preface, settings, acknowledge, headers("localhost"), body]));
  await until(() => answered(types()), "the answer");
  await until(() => socket.destroyed, "the end of the mute one");
  const states = idle.map(client => client.getChannel().getConnectivityState(false));
  expect(states).toEqual([connectivityState.READY, connectivityState.READY]);
});
