import { readdir, readFile } from "node:fs/promises";
import { run } from "./run.ts";

const lines = (text: string): readonly string[] => text.split("\n").filter(line => line !== "");
const entries = (folder: string): Promise<readonly string[]> => readdir(folder).catch(() => []);
const text = (file: string): Promise<string> =>
  readFile(file, "utf8").then(
    read => read.trim(),
    () => "",
  );

/** Entries of a folder, each with the content of one of its files. */
const described = async (folder: string, file: string): Promise<readonly string[]> =>
  Promise.all((await entries(folder)).map(async name => `${name} ${await text(`${folder}/${name}/${file}`)}`));

async function mounts(): Promise<readonly string[]> {
  const fields = lines(await readFile("/proc/self/mountinfo", "utf8")).map(line => line.split(" "));
  // Automounts appear and disappear at any time.
  return fields.map(field => field[4] ?? "").filter(point => !/^\/(proc|sys|dev|run)\//.test(point));
}

/** Block devices in use: the kernel keeps unused loop devices. */
async function blockDevices(): Promise<readonly string[]> {
  const names = await entries("/sys/block");
  const used = await Promise.all(
    names.map(async name => {
      if (name.startsWith("loop")) return (await text(`/sys/block/${name}/loop/backing_file`)) !== "";
      return (await text(`/sys/block/${name}/size`)) !== "0";
    }),
  );
  return names.filter((_, index) => used[index]);
}

async function iscsiRecords(): Promise<readonly string[]> {
  const targets = await entries("/etc/iscsi/nodes");
  const portals = await Promise.all(
    targets.map(async name => (await entries(`/etc/iscsi/nodes/${name}`)).map(at => `${name} ${at}`)),
  );
  return portals.flat();
}

async function configured(): Promise<readonly string[]> {
  const folders = ["target/iscsi", "target/core", "nvmet/subsystems", "nvmet/ports"];
  const found = await Promise.all(
    folders.map(async folder => (await entries(`/sys/kernel/config/${folder}`)).map(name => `${folder}/${name}`)),
  );
  const own = /\/(discovery_auth|lio_version|alua|cpus_allowed_list)$/;
  return found.flat().filter(name => !own.test(name));
}

const datasets = "dataset, zvol or snapshot";
/** The trace of a dataset. */
export const datasetTrace = (name: string): string => `${datasets}: ${name}`;

/** The traces of volumes in this machine, by kind. */
const kinds: Readonly<Record<string, () => Promise<readonly string[]>>> = {
  mount: mounts,
  "block device": blockDevices,
  "iSCSI session": () => described("/sys/class/iscsi_session", "targetname"),
  "iSCSI record": iscsiRecords,
  "NVMe controller": () => described("/sys/class/nvme", "subsysnqn"),
  "target, backstore, subsystem or port": configured,
  [datasets]: async () => lines(await run(["zfs", "list", "-H", "-t", "all", "-o", "name"])),
  "NFS export": async () => lines(await text("/var/lib/nfs/etab")).map(line => line.split("\t")[0] ?? ""),
  "SMB share": () => entries("/var/lib/samba/usershares"),
  "namespace of the network": () => entries("/run/netns"),
};

/** The current traces in this machine, one line each. */
export async function traces(): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  for (const [kind, look] of Object.entries(kinds)) for (const name of await look()) found.add(`${kind}: ${name}`);
  return found;
}

/**
 * New traces in this machine since `before`. Kernels remove sessions and mounts with a delay, so
 * it checks repeatedly for up to ten seconds. `look` is `traces` of this or another machine.
 */
export async function leftSince(
  before: ReadonlySet<string>,
  look: () => Promise<ReadonlySet<string>> = traces,
): Promise<readonly string[]> {
  const until = Date.now() + 10_000;
  for (;;) {
    const left = [...(await look())].filter(trace => !before.has(trace));
    if (left.length === 0 || Date.now() > until) return left;
    await new Promise(resolve => setTimeout(resolve, 250));
  }
}
