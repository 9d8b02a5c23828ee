import { close, closeSync, fsync, mkdirSync, openSync, rmdirSync, unlinkSync, writeSync } from "node:fs";
import { promisify } from "node:util";
import type { ServiceImpl } from "@connectrpc/connect";
import { GrpcServer } from "../../lib/csi/server.ts";
import { Controller, Node } from "../../lib/csi/services.ts";
import { localRunner } from "../../lib/io/local.ts";

// The least that a durable CreateVolume and its DeleteVolume, and a folder's way through a node, can be on this stack: the wire,
// the system calls, the four programs, and nothing else.
// No router, no configuration, no locks, no log, no checks: what csimux costs beyond this is its own.

const [, , socket = "", base = ""] = process.argv;
const synced = promisify(fsync);
const record = (name: string) => `${base}/.${name}`;

const bare: Partial<ServiceImpl<typeof Controller>> = {
  async createVolume({ name }) {
    const file = openSync(record(name), "wx", 0o600);
    const folder = openSync(base, "r");
    writeSync(file, JSON.stringify({ name, bytes: "1048576", created: new Date() }));
    mkdirSync(`${base}/${name}`);
    await Promise.all([synced(file), synced(folder)]);
    closeSync(file);
    close(folder);
    const volumeContext = { node_attach_driver: "hostpath", path: `${base}/${name}` };
    return { volume: { volumeId: `v:one/${name}`, capacityBytes: 1n << 20n, volumeContext } };
  },
  async deleteVolume({ volumeId }) {
    const name = volumeId.slice("v:one/".length);
    const folder = openSync(base, "r");
    rmdirSync(`${base}/${name}`);
    unlinkSync(record(name));
    await synced(folder);
    close(folder);
    return {};
  },
};

const runner = localRunner({ env: { PATH: process.env["PATH"] ?? "" } });
const run = async (...argv: readonly [string, ...string[]]) => {
  await runner.run({ argv }, new AbortController().signal);
  return {};
};

const bareNode: Partial<ServiceImpl<typeof Node>> = {
  nodeStageVolume: async ({ volumeContext, stagingTargetPath }) =>
    await run("mount", "-n", "-o", "bind", volumeContext["path"] ?? "", stagingTargetPath),
  async nodePublishVolume({ stagingTargetPath, targetPath }) {
    mkdirSync(targetPath, { recursive: true });
    return await run("mount", "-n", "-o", "bind", stagingTargetPath, targetPath);
  },
  async nodeUnpublishVolume({ targetPath }) {
    await run("umount", "-n", "-c", targetPath);
    rmdirSync(targetPath);
    return {};
  },
  nodeUnstageVolume: async ({ stagingTargetPath }) => await run("umount", "-n", "-c", stagingTargetPath),
};

const server = new GrpcServer({ maxRequestBytes: 4 << 20 });
server.mount(Controller, bare);
server.mount(Node, bareNode);
void server.listen({ kind: "unix", path: socket });
