import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join, relative } from "node:path";
import { cwd } from "node:process";
import { parseEndpoint } from "../../lib/csi/endpoint.ts";
import { Identity } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { GrpcServer } from "../../lib/csi/server.ts";
import { call, connectTo, maxRequestBytes, temporaryFolder } from "./rig.ts";

let folder = "";
let path = "";
const servers: GrpcServer[] = [];

beforeEach(() => {
  folder = temporaryFolder();
  path = join(folder, "csi.sock");
});

afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop(0);
  rmSync(folder, { recursive: true, force: true });
});

/** A server whose vendor version is the given text. */
function newServer(version = ""): GrpcServer {
  const server = new GrpcServer({ maxRequestBytes });
  server.mount(Identity, { getPluginInfo: () => ({ vendorVersion: version }) });
  servers.push(server);
  return server;
}

const listen = (endpoint: string, mode?: number): Promise<string> => newServer().listen(parseEndpoint(endpoint), mode);

/** The vendor version of the process that serves the address. */
async function versionAt(address: string): Promise<string | undefined> {
  const client = connectTo(address);
  try {
    return (await call(client, Identity.method.getPluginInfo, {})).answer?.vendorVersion;
  } finally {
    client.close();
  }
}

const modeOf = (file: string): number => lstatSync(file).mode & 0o777;

/** Leaves a socket file without a listening process, as a killed process does. */
function leaveStaleSocket(file: string): void {
  const script = `require("node:net").createServer().listen(${JSON.stringify(file)}, () => process.kill(process.pid, "SIGKILL"))`;
  spawnSync(process.execPath, ["-e", script], { timeout: 10_000 });
  expect(lstatSync(file).isSocket()).toBe(true);
}

describe("a Unix socket", () => {
  test("is only for its user unless another mode is given, and nothing else is left in its folder", async () => {
    expect(await listen(path)).toBe(`unix:${path}`);
    expect(modeOf(path)).toBe(0o600);
    expect(readdirSync(folder)).toEqual(["csi.sock"]);
    await listen(join(folder, "other.sock"), 0o666);
    expect(modeOf(join(folder, "other.sock"))).toBe(0o666);
  });

  test("file without a listener is replaced", async () => {
    leaveStaleSocket(path);
    await newServer("second").listen({ kind: "unix", path });
    expect(await versionAt(`unix:${path}`)).toBe("second");
  });

  test("that is in use is not stolen", async () => {
    await newServer("first").listen({ kind: "unix", path });
    const before = lstatSync(path).ino;
    await expect(listen(path)).rejects.toThrow(`${path} is in use by another process`);
    await servers[1]?.stop(0);
    expect(lstatSync(path).ino).toBe(before);
    expect(await versionAt(`unix:${path}`)).toBe("first");
    expect(readdirSync(folder)).toEqual(["csi.sock"]);
  });

  test("whose owner is too busy to accept is not stolen", async () => {
    const busy: Server = createServer();
    await new Promise<void>(resolve => busy.listen({ path, backlog: 1 }, resolve));
    await expect(listen(path)).rejects.toThrow("is in use");
    await new Promise(resolve => busy.close(resolve));
  });

  test("path taken by a regular file, a folder or a link is refused and left alone", async () => {
    writeFileSync(path, "precious");
    await expect(listen(path)).rejects.toThrow(`${path} exists and is not a socket`);
    expect(readFileSync(path, "utf8")).toBe("precious");
    mkdirSync(join(folder, "sub"));
    await expect(listen(join(folder, "sub"))).rejects.toThrow("exists and is not a socket");
    const link = join(folder, "link");
    symlinkSync(join(folder, "nowhere"), link);
    await expect(listen(link)).rejects.toThrow("exists and is not a socket");
    expect(readdirSync(folder).sort()).toEqual(["csi.sock", "link", "sub"]);
  });

  test("in a missing folder is refused with the name of the folder", async () => {
    await expect(listen(join(folder, "missing", "csi.sock"))).rejects.toThrow(
      `the folder ${join(folder, "missing")} of the socket does not exist; create it`,
    );
  });

  test("below a regular file is refused", async () => {
    writeFileSync(path, "");
    await expect(listen(join(path, "csi.sock"))).rejects.toThrow(`cannot create a socket in ${path}: ENOTDIR`);
  });

  test("path of 107 bytes is served, one of 108 is refused", async () => {
    const deep = join(folder, "d".repeat(107 - folder.length - 2 - "csi.sock".length));
    mkdirSync(deep);
    const longest = join(deep, "csi.sock");
    expect(longest).toHaveLength(107);
    await newServer("long").listen({ kind: "unix", path: longest });
    expect(await versionAt(`unix:${longest}`)).toBe("long");
    await expect(listen(join(deep, "csi2.sock"))).rejects.toThrow("is too long: it needs 108 of at most 107 bytes");
  });

  test("that a successor has taken over is not removed by the stopping server", async () => {
    const first = newServer("first");
    await first.listen({ kind: "unix", path });
    rmSync(path);
    await newServer("second").listen({ kind: "unix", path });
    await first.stop(0);
    expect(await versionAt(`unix:${path}`)).toBe("second");
  });

  test("given as relative path is made below the working folder", async () => {
    const name = relative(cwd(), path);
    expect(await listen(`unix:${name}`)).toBe(`unix:${name}`);
    expect(lstatSync(path).isSocket()).toBe(true);
  });
});

describe("a TCP endpoint", () => {
  test("with port 0 reports the port it got", async () => {
    const address = await newServer("tcp").listen(parseEndpoint("tcp://127.0.0.1:0"));
    expect(address).toMatch(/^127\.0\.0\.1:\d+$/);
    expect(await versionAt(address)).toBe("tcp");
  });

  test("in use is refused", async () => {
    const address = await newServer().listen(parseEndpoint("127.0.0.1:0"));
    await expect(listen(address)).rejects.toThrow(`cannot listen on ${address}`);
  });
});
