import { realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { protocols } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { CsiError, errnoOf, hasCode } from "../../core/errors.ts";
import { type CommandRunner, failed, notFoundExit, run } from "../../io/runner.ts";
import { deviceNumber } from "../disks/block-device.ts";
import { bounded } from "../mount/files.ts";
import { otherFlags } from "../mount/flags.ts";
import type { Attached, Attacher, AttacherPorts, AttachRequest } from "./attacher.ts";

/** A dataset below a pool (zfs(8), "ZFS Component Naming Requirements"), not a snapshot or bookmark. */
const dataset = /^[A-Za-z][A-Za-z0-9_.:-]*(?:\/[A-Za-z0-9_][A-Za-z0-9_.: -]*)+$/;

const unknown = /dataset does not exist|no such pool/i;

/**
 * A dataset or zvol of a pool on this node, `zfs_asset_name` of the context. Its properties stay unchanged: a dataset
 * with its own mount point is mounted elsewhere with `zfsutil`, as zfs-mount(8) does. Every user who can create
 * PersistentVolumes can name any dataset, so if node.zfs-local.datasets is set, it must lie below one of those.
 */
export const zfsLocal = ({
  host,
  devices,
  hostDatasets,
}: Pick<AttacherPorts, "host" | "devices" | "hostDatasets">): Attacher => ({
  access: protocols["zfs-local"],
  async attach(wanted, _, call) {
    const name = wanted.context["zfs_asset_name"] ?? "";
    if (!dataset.test(name)) {
      const given = JSON.stringify(name.slice(0, 200));
      const text = `volume "${wanted.volumeId}": zfs_asset_name ${given} is not a dataset name`;
      throw new CsiError("invalid-argument", text);
    }
    const parents = await hostDatasets();
    if (parents && !parents.some(parent => name.startsWith(`${parent}/`))) {
      const what = `volume "${wanted.volumeId}": ${name} is not below any of node.zfs-local.datasets`;
      throw new CsiError("permission-denied", what);
    }
    const { type, guid, mountpoint } = await properties(name, wanted, host, call);
    return type === "volume" ? await volume(name, guid, { host, devices }, call) : fileSystem(name, mountpoint, wanted);
  },
});

async function properties(name: string, { volumeId }: AttachRequest, host: CommandRunner, call: Call) {
  const task = `volume "${volumeId}": reading the properties of dataset ${name}`;
  const argv = ["zfs", "get", "-Hp", "-o", "value", "type,guid,mountpoint", name] as const;
  const output = await run(host, { argv }, task, call.signal);
  const [type = "", guid = "", mountpoint = ""] = output.stdout.trim().split("\n");
  if (output.exitCode === 0 && /^[0-9]+$/.test(guid)) return { type, guid, mountpoint };
  const code = unknown.test(output.stderr) ? "not-found" : "unavailable";
  throw new CsiError(code, `${task} failed: ${output.stderr.trim().slice(0, 300) || `exit code ${output.exitCode}`}`);
}

/** Only a dataset with mountpoint "legacy" can be mounted without `zfsutil` (zfsprops(7), mountpoint). */
function fileSystem(name: string, mountpoint: string, { capability, volumeId }: AttachRequest): Attached {
  if (capability.kind === "block") {
    const text = `volume "${volumeId}": dataset ${name} is a file system, not a block device`;
    throw new CsiError("failed-precondition", text);
  }
  return {
    kind: "share",
    fsType: "zfs",
    source: name,
    options: [...(mountpoint === "legacy" ? [] : ["zfsutil"]), ...otherFlags(capability.mountFlags)],
    onHost: true,
  };
}

type Ports = Pick<AttacherPorts, "host" | "devices">;

/** udev writes "+" for a blank of the name (OpenZFS, udev/zvol_id.c). */
const linkOf = (name: string): string => name.replaceAll(" ", "+");

async function volume(name: string, guid: string, { host, devices }: Ports, call: Call): Promise<Attached> {
  const link = join(devices, "zvol", linkOf(name));
  const absent = (cause: unknown): never => {
    throw new CsiError("unavailable", `${link} does not exist yet (${errnoOf(cause)}); check that udev runs`, {
      cause,
    });
  };
  const path = await bounded(realpath(link).catch(absent), `resolving ${link}`, call.signal);
  const { rdev } = await bounded(stat(path), `checking ${path}`, call.signal);
  const shown = await zvolAt(path, host, call);
  if (shown !== undefined && shown !== linkOf(name)) {
    const text = `${link} leads to ${path}, which is the zvol ${shown}; udev lags behind, check that it runs; retrying`;
    throw new CsiError("unavailable", text);
  }
  return { kind: "device", path, number: deviceNumber(rdev), identity: guid, proof: {} };
}

/** udev's own program for the links of zvols. Hosts keep it in one of these folders. */
const zvolIds = ["/lib/udev/zvol_id", "/usr/lib/udev/zvol_id"];

/**
 * The zvol of a device according to the kernel, as the link to it should be named; undefined on a host without that program. While udev
 * lags behind, the link of a zvol that was destroyed or renamed stays, and its device may be another zvol's by now. Throws "unavailable".
 */
async function zvolAt(path: string, host: CommandRunner, call: Call): Promise<string | undefined> {
  const task = `asking the kernel for the zvol of ${path}`;
  for (const program of zvolIds) {
    const output = await run(host, { argv: [program, path] }, task, call.signal).catch((error: unknown) => {
      if (hasCode(error, "failed-precondition")) return undefined;
      throw error;
    });
    if (!output || output.exitCode === notFoundExit) continue;
    if (output.exitCode === 0) return output.stdout.trim();
    throw failed(output, task);
  }
  return undefined;
}
