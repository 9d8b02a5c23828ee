import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { state } from "../../../scripts/cluster/place.ts";
import { registryCommand } from "../../../scripts/release/registry.ts";
import { startServer, stopServer } from "./server.ts";

const address = "10.99.0.2";
const port = 6443;

/** The registry's name in the names of images and charts. */
export const registry = `${address}:${port}`;

/** Its certificate and its content. */
export const registryFolder = join(state, "registry");

/** Below it, containerd finds how to reach each registry (hosts.toml). */
const known = join(state, "registries");

/** Starts a registry with a certificate of its own, which containerd trusts, on the cluster's machine. */
export async function startRegistry(): Promise<void> {
  const argv = await registryCommand(registryFolder, address, port);
  await mkdir(join(known, registry), { recursive: true });
  const host = `[host."https://${registry}"]\n  ca = ["/run/cluster/state/registry/tls.crt"]\n`;
  await writeFile(join(known, registry, "hosts.toml"), `server = "https://${registry}"\n${host}`);
  await startServer(argv, address, port);
}

/** Ends it and removes what it has. */
export async function stopRegistry(): Promise<void> {
  await stopServer("scripts/release/registry.ts", address, port);
  for (const each of [registryFolder, known]) await rm(each, { recursive: true, force: true });
}
