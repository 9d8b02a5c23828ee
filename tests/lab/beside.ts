import { readFile } from "node:fs/promises";
import { sshToRunning } from "../../scripts/lab/guest.ts";
import { type Running, runningGuest } from "../../scripts/lab/guests.ts";
import { guestPorts, hostPort } from "../../scripts/lab/machine.ts";
import { imageIn } from "../../scripts/lab/place.ts";
import { mebibytes, type World } from "../serve/world.ts";
import { persistently } from "./persistently.ts";
import type { Made } from "./rig.ts";
import { leftSince } from "./traces.ts";

/** The guest that is the storage host of a `.beside.lab.ts` test; csimux and the test run on this machine. */
export const guest: Running = await (async () => {
  const found = await runningGuest(Number(process.env["LAB_GUEST"]));
  if (!found) throw new Error("LAB_GUEST does not name a running guest: start these tests with make test-lab");
  return found;
})();

const ssh = sshToRunning(guest);

/** Runs a program in the guest and returns its output; throws with its error output if it fails. */
export async function inGuest(argv: readonly [string, ...string[]], timeoutMs = 120_000): Promise<string> {
  const { code, stdout, stderr } = await ssh.run(argv, { timeoutMs });
  if (code !== 0) throw new Error(`${argv.join(" ")}: code ${code}: ${stderr}${stdout}`);
  return stdout;
}

/** Runs a shell command in the guest. */
export const guestShell = (text: string, ...words: readonly string[]): Promise<string> =>
  inGuest(["sh", "-c", text, "sh", ...words]);

/** The current traces in the guest, for `leftSince`. */
export async function guestTraces(): Promise<ReadonlySet<string>> {
  const listed = await inGuest(["/opt/csimux/bun", "/opt/csimux/traces.js"]);
  if (listed === "") throw new Error("the guest listed nothing, not even its own disks");
  return new Set(listed.trim().split("\n"));
}

/** New traces in the guest since `before`. */
export const leftInGuest = (before: ReadonlySet<string>): Promise<readonly string[]> => leftSince(before, guestTraces);

/** The block `sshConnection` of a connection file, for root of the guest; `port`: another port than the guest's. */
export async function sshLines(more: readonly string[] = [], port = hostPort(guest.number, guestPorts.ssh)) {
  const key = (await readFile(imageIn(guest.image).key, "utf8")).trim().split("\n");
  const hostKey = (await inGuest(["cat", "/etc/ssh/ssh_host_ed25519_key.pub"])).split(" ").slice(0, 2).join(" ");
  const own = ["  host: 127.0.0.1", `  port: ${port}`, "  username: root", `  hostKey: ${hostKey}`];
  return [
    "sshConnection:",
    ...own,
    // On an emulated processor, a login takes seconds, and more on a busy machine.
    "  readyTimeout: 120000",
    ...more,
    "  privateKey: |",
    ...key.map(line => `    ${line}`),
  ];
}

/** All datasets and snapshots at and below a dataset of the guest, by relative name; empty if it does not exist. */
export async function guestPoolBelow(dataset: string): Promise<readonly string[]> {
  const listed = await guestShell('zfs list -H -t all -o name -s name -r "$1" 2>/dev/null || :', dataset);
  const names = listed.split("\n").map(name => name.slice(dataset.length));
  return names.filter(name => name !== "");
}

/** The ids of all volumes of a connection, without the connection's name. */
export async function volumesOf(world: World, connection: string): Promise<readonly string[]> {
  const { entries } = await persistently(() => world.controller("listVolumes", {}, 120_000));
  const prefix = `v:${connection}/`;
  const ids = entries.flatMap(({ volume }) => (volume ? [volume.volumeId] : []));
  return ids.flatMap(id => (id.startsWith(prefix) ? [id.slice(prefix.length)] : [])).sort();
}

/** Creates a volume, by default of 64 MiB, and retries like the provisioner. */
export async function making(
  world: World,
  connection: string,
  name: string,
  { size = 64, ...more }: { readonly size?: number } & object = {},
): Promise<Made> {
  const request = { capacityRange: mebibytes(size) as never, ...more };
  const { volume } = await persistently(() => world.create(name, connection, request, 120_000));
  if (!volume) throw new Error("no volume");
  return volume;
}

/** Deletes a volume and retries like the provisioner. */
export const removing = (world: World, connection: string, name: string) =>
  persistently(() => world.controller("deleteVolume", { volumeId: `v:${connection}/${name}` }, 120_000));

/** A number of names with a prefix. */
export const numbered = (what: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, at) => `${what}-${at}`);
