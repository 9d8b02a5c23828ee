import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { below } from "../../scripts/check/below.ts";
import { clientPid } from "../../scripts/nomad/machine.ts";
import { type Client, clientNames, folderOf, onClient, store } from "../../scripts/nomad/place.ts";
import { eventually, jobs, nomad, stop } from "./nomad.ts";
import { removeVolumes, snapshots, volumeIds } from "./volumes.ts";

/** The folders of csimux in an empty storage system. */
const own = new Set(["v", "s", ".csimux", "work", "copies", "moments"]);

/** What is in a storage system, without csimux's own folders. */
export const stored = (folder: string): readonly string[] =>
  existsSync(folder) ? below(folder).filter(name => !own.has(basename(name))) : [];

/** The mount points of volumes on a client, below the folder of a plugin. */
export async function mounted(client: Client): Promise<readonly string[]> {
  const lines = (await readFile(`/proc/${await clientPid(client)}/mountinfo`, "utf8")).split("\n");
  const prefix = `${onClient.data}/client/csi/`;
  const points = lines.map(line => line.split(" ")[4] ?? "").filter(point => point.startsWith(prefix));
  return points.map(point => point.slice(prefix.length)).filter(point => /\/(?:staging|per-alloc)\//.test(point));
}

async function records(client: Client): Promise<readonly string[]> {
  const folder = join(folderOf(client), "records");
  return existsSync(folder) ? below(folder).filter(name => /\/volumes\/./.test(name)) : [];
}

/** All traces of volumes: mounts and records on the clients, and data in the storage systems. */
async function left(): Promise<readonly string[]> {
  const found = [];
  for (const client of clientNames)
    for (const each of [
      ...(await mounted(client)),
      ...(await records(client)),
      ...stored(join(folderOf(client), "disk")),
    ])
      found.push(`${client}: ${each}`);
  for (const name of await readdir(store)) found.push(...stored(join(store, name)).map(each => `${name}: ${each}`));
  return found;
}

/** Waits until no volume is mounted on a client. */
export const unmounted = (client: Client): Promise<boolean> =>
  eventually(`nothing is mounted on ${client}`, async () => (await mounted(client)).length === 0);

/** Stops all jobs with volumes, deletes all volumes and snapshots, and waits until nothing is left of them. */
export async function tidy(...plugins: readonly string[]): Promise<void> {
  await stop(...(await jobs()).filter(job => !job.startsWith("csimux")));
  for (const plugin of plugins) {
    // A plugin that was just started may be unknown to Nomad.
    const all = await eventually(`${plugin} lists its snapshots`, () => snapshots(plugin).catch(() => undefined));
    for (const { ID } of all) await nomad("volume", "snapshot", "delete", plugin, ID);
  }
  await removeVolumes(...(await volumeIds()));
  let last: readonly string[] = [];
  await eventually("nothing is left of volumes", async () => {
    last = await left();
    return last.length === 0;
  }).catch(() => {
    throw new Error(`left over: ${last.slice(0, 20).join("; ")}`);
  });
}
