import { mkdir, mkdtemp, readFile, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Capability } from "../../lib/core/access.ts";
import type { Call, Log, Secrets } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { type Mount, parseMountinfo } from "../../lib/core/mountinfo.ts";
import { semaphores } from "../../lib/core/semaphore.ts";
import { localRunner } from "../../lib/io/local.ts";
import type { Command, CommandRunner } from "../../lib/io/runner.ts";
import type { AttacherPorts } from "../../lib/node/attach/attacher.ts";
import { attachers } from "../../lib/node/attach/attachers.ts";
import { DiskFilesystems } from "../../lib/node/disks/disk-filesystems.ts";
import { isOnLocalFilesystem } from "../../lib/node/mount/files.ts";
import { MountTable } from "../../lib/node/mount/mount-table.ts";
import { Mounts } from "../../lib/node/mount/mounts.ts";
import type { NodeParts } from "../../lib/node/parts.ts";
import type { PublishRequest, StageRequest } from "../../lib/node/requests.ts";
import { MountOwnership } from "../../lib/node/state/ownership.ts";
import { StageRecords } from "../../lib/node/state/stage-records.ts";
import { type NodePorts, NodeVolumes } from "../../lib/node/volumes.ts";

/** Bind mounts need root; the tests that need it are skipped visibly without it. */
export const isRoot = process.getuid?.() === 0;
if (!isRoot) process.stderr.write("\n*** NOT RUN: tests of real mounts need root ***\n\n");

export const local = localRunner({ env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" } });
export const calm = new AbortController().signal;
export const mountinfo = "/proc/self/mountinfo";

/** A log that keeps its warnings. */
export function keptLog(): { readonly log: Log; readonly warnings: string[] } {
  const warnings: string[] = [];
  const log: Log = { debug() {}, info() {}, warn: text => warnings.push(text), error() {}, with: () => log };
  return { log, warnings };
}

/** A call whose log is a getter, as of the server's own (lib/csi/instrument.ts): `{ ...call }` does not have it. */
class OneCall implements Call {
  readonly id = "1";
  readonly signal: AbortSignal;
  readonly secrets: Secrets;
  readonly #log: Log;

  constructor(signal: AbortSignal, log: Log, secrets: Secrets) {
    this.signal = signal;
    this.secrets = secrets;
    this.#log = log;
  }

  get log(): Log {
    return this.#log;
  }
}

export const callOf = (signal = calm, log = keptLog().log, secrets: Secrets = {}): Call =>
  new OneCall(signal, log, secrets);

export const writer: Capability = {
  kind: "mount",
  fsType: undefined,
  mountFlags: [],
  mountGroup: undefined,
  mode: "single-node-writer",
};

export const codeOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work;
    return "ok";
  } catch (error) {
    if (error instanceof CsiError) return error.code;
    throw error;
  }
};

/** A runner that records its commands and can act in place of the real one, given the number of earlier commands. */
export function spying(
  act?: (command: Command, count: number) => Promise<void> | undefined,
): CommandRunner & { readonly ran: string[] } {
  const ran: string[] = [];
  return {
    where: "local",
    ran,
    async run(command, signal) {
      ran.push(command.argv.join(" "));
      await act?.(command, ran.length);
      return await local.run(command, signal);
    },
  };
}

/** A temporary node: sources, a kubelet-like folder, records; `close` removes all mounts and files. */
export class Lab {
  readonly folder: string;
  #mounted = false;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async open(): Promise<Lab> {
    const lab = new Lab(await realpath(await mkdtemp(join(tmpdir(), "csimux-node-"))));
    if (isRoot) await lab.#becomeLocal();
    return lab;
  }

  /** Replaces the overlay of containers, for which csimux runs programs: the tests count the commands on a local file system. */
  async #becomeLocal(): Promise<void> {
    const table = new MountTable(parseMountinfo(await readFile(mountinfo, "utf8")));
    if (isOnLocalFilesystem(this.folder, table)) return;
    const { exitCode, stderr } = await local.run({ argv: ["mount", "-t", "tmpfs", "lab", this.folder] }, calm);
    if (exitCode !== 0) throw new Error(stderr);
    this.#mounted = true;
  }

  at(...parts: string[]): string {
    return join(this.folder, ...parts);
  }

  /** The dependencies of attachers, below the lab's folder where possible. */
  ports(runner: CommandRunner, more: Partial<AttacherPorts> = {}): AttacherPorts {
    const places = {
      devices: "/dev",
      sys: "/sys",
      proc: "/proc",
      hostRoot: "/",
      rootOf: async () => "/",
      opened: this.at("opened"),
      answers: async () => true,
    };
    return {
      runner,
      host: runner,
      hostMounts: false,
      hostFolders: async () => undefined,
      hostDatasets: async () => undefined,
      ...places,
      ...more,
    };
  }

  /** What the parts of a node share, on this machine. */
  parts(more: Partial<NodeParts> = {}): NodeParts {
    const records = new StageRecords(this.at("records"));
    const disks = this.disks(local);
    const mounts = new Mounts(local, local, mountinfo, this.at("records"));
    const known = attachers(this.ports(local));
    const ownership = new MountOwnership(records, []);
    return { attachers: known, disks, mounts, records, ownership, targets: semaphores(1), ...more };
  }

  disks(runner: CommandRunner): DiskFilesystems {
    const settings = { check: {}, format: {} };
    return new DiskFilesystems({ runner, sys: "/sys", folder: this.at("formats"), settings });
  }

  node(runner: CommandRunner = local, table = mountinfo, more: Partial<NodePorts> = {}): NodeVolumes {
    const known = attachers(this.ports(runner));
    const disks = this.disks(runner);
    const drivers = [{ name: "csimux" }, { name: "org.old", connection: "c1" }];
    const ofFile = { mountFlags: async () => [] };
    const ports = { drivers, runner, host: runner, ...ofFile, attachers: known, disks };
    const health = { everyMs: 0, holdMs: 0, elsewhere: async () => [] };
    const answers = async () => true;
    const own = { ...ports, records: this.at("records"), mountinfo: table, answers, health };
    return new NodeVolumes({ ...own, ...more });
  }

  async source(name: string): Promise<string> {
    await mkdir(this.at("base", name), { recursive: true });
    return this.at("base", name);
  }

  stage(name: string, more: Partial<StageRequest> = {}): StageRequest {
    const context = { node_attach_driver: "hostpath", path: this.at("base", name) };
    const stagingPath = this.at("staging", name);
    return { volumeId: name, stagingPath, capability: writer, context, publishContext: {}, ...more };
  }

  publish(name: string, more: Partial<PublishRequest> = {}): PublishRequest {
    const targetPath = this.at("pods", name, "mount");
    return { ...this.stage(name), targetPath, readonly: false, ...more };
  }

  async mounts(): Promise<readonly Mount[]> {
    const all = parseMountinfo(await readFile(mountinfo, "utf8"));
    return all.filter(mount => mount.at.startsWith(`${this.folder}/`));
  }

  /** The mount points below the folder, relative to it. */
  async mounted(): Promise<readonly string[]> {
    return (await this.mounts()).map(mount => mount.at.slice(this.folder.length + 1)).sort();
  }

  async bind(source: string, target: string): Promise<void> {
    await mkdir(target, { recursive: true });
    const { exitCode, stderr } = await local.run({ argv: ["mount", "--bind", source, target] }, calm);
    if (exitCode !== 0) throw new Error(stderr);
  }

  async close(): Promise<void> {
    for (const { at } of [...(await this.mounts())].reverse()) await local.run({ argv: ["umount", "-l", at] }, calm);
    const left = await this.mounts();
    if (this.#mounted) await local.run({ argv: ["umount", "-l", this.folder] }, calm);
    if (left.length > 0) throw new Error(`mounts are left behind: ${left.map(({ at }) => at).join(", ")}`);
    await rm(this.folder, { recursive: true, force: true });
  }
}
