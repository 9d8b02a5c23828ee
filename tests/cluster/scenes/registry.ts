import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inMachine } from "../../../scripts/cluster/machine.ts";
import { state } from "../../../scripts/cluster/place.ts";
import { kill } from "../../../scripts/cluster/processes.ts";
import { registryCommand } from "../../../scripts/release/registry.ts";
import { eventually } from "../kube.ts";
import { processes } from "../processes.ts";

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
  void inMachine(argv, 3_600_000);
  const reached = async () => (await inMachine(["bash", "-c", `: </dev/tcp/${address}/${port}`])).code === 0;
  await eventually("the registry listens", 60_000, reached);
}

/** Ends it and removes what it has. */
export async function stopRegistry(): Promise<void> {
  kill(
    (await processes()).filter(({ command }) => /scripts\/release\/registry\.ts|crane\S* registry serve/.test(command)),
  );
  for (const each of [registryFolder, known]) await rm(each, { recursive: true, force: true });
}
