import { expect } from "bun:test";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { rmdir } from "node:fs/promises";
import { join } from "node:path";
import { compileTo } from "../../../scripts/build.ts";
import { below } from "../../../scripts/check/below.ts";
import { mountCapability } from "../../../scripts/client.ts";
import { startDaemon } from "../../../scripts/daemon.ts";
import { makeSandbox } from "../../../scripts/sandbox.ts";
import { MountProgram } from "../../fakes/mount-program.ts";
import { type Double, startDouble } from "../../fakes/truenas/double.ts";
import { type FakeZfs, fakeZfs } from "../../fakes/zfs/pools.ts";
import { type Sshd, signal, startSshd } from "../../io/ssh/sshd.ts";
import { status, World } from "../world.ts";
import type { Site } from "./backup-tools.ts";

/** The connections, the first of which have mounts of their volumes on a node; the disks have targets, and no initiator. */
export const connections = ["files", "disks", "nas"] as const;

/** Everything that lies on the storage systems and on the node, by name. */
export type Everything = Readonly<Record<string, unknown>>;

/** csimux as a controller and a node, with a host with ZFS for files and disks, and a TrueNAS. */
export interface NightRig extends Site {
  /** The host with ZFS. */
  readonly zfs: FakeZfs;
  /** csimux loses everything that is not on the storage or its disk. What it has begun on the host with ZFS continues. */
  kill(): Promise<void>;
  everything(): Everything;
  /** The commands of ZFS and the requests to TrueNAS since the last call of it. */
  costs(): Readonly<Record<"zfs" | "truenas", readonly string[]>>;
  /** Writes into a volume of `files`, as a pod would. */
  fill(volume: string, text: string): void;
  end(): Promise<readonly string[]>;
}

const files = (sshd: Sshd): object => ({
  driver: "zfs-generic-nfs",
  instance_id: "night",
  sshConnection: login(sshd),
  zfs: parents("files"),
  nfs: {
    shareHost: "nas.example.org",
    shareStrategy: "setDatasetProperties",
    shareStrategySetDatasetProperties: { properties: { sharenfs: "rw" } },
  },
});

const disks = (sshd: Sshd): object => ({
  driver: "zfs-generic-iscsi",
  instance_id: "night",
  sshConnection: login(sshd),
  zfs: parents("disks"),
  iscsi: {
    targetPortal: "nas.example.org:3260",
    shareStrategy: "targetCli",
    shareStrategyTargetCli: { basename: "iqn.2024-01.org.example:night", tpg: {}, block: {} },
  },
});

const nas = ({ port }: Double): object => ({
  driver: "truenas-api-nfs",
  instance_id: "night",
  httpConnection: { protocol: "http", host: "127.0.0.1", port, apiKey: "1-secret", allowInsecure: true },
  zfs: parents("nas"),
  nfs: { shareHost: "truenas.example.org" },
});

const parents = (name: string): object => ({
  datasetParentName: `tank/${name}/v`,
  detachedSnapshotsDatasetParentName: `tank/${name}/s`,
  deleteWithDependents: "tombstone",
});

const login = ({ port, clientKey, hostKey }: Sshd): object => ({
  ...{ host: "127.0.0.1", port, username: "root", privateKey: clientKey, hostKey },
});

export async function nightRig(): Promise<NightRig> {
  const fake = await fakeZfs();
  const sshd = await startSshd({ env: { PATH: `${fake.bin}:/usr/sbin:/usr/bin:/sbin:/bin` } });
  const double = await startDouble({ version: "25.10" });
  const mount = await MountProgram.at(join(fake.folder, "mount"));
  const sandbox = await makeSandbox("off", []);
  const texts = { files: files(sshd), disks: disks(sshd), nas: nas(double) };
  for (const [name, text] of Object.entries(texts))
    writeFileSync(join(sandbox.connections, `${name}.yaml`), JSON.stringify(text));
  for (const folder of ["staging", "pods"]) mkdirSync(join(sandbox.folder, folder));
  const command = [await compileTo(join(fake.folder, "csimux"), "tests/serve/night/modelled.ts")] as const;
  const env = { PATH: `${mount.folder}:/usr/sbin:/usr/bin:/sbin:/bin`, MODELLED_HOST: fake.folder };
  // Checks would be among the costs.
  let healthSeconds = 0;
  const world = await World.on(sandbox, () =>
    startDaemon({ command, sandbox, env, flags: [`--health-interval=${healthSeconds}`] }),
  );
  const contentOf = (volume: string): string => join(fake.place(`tank/files/v/${volume}`), "data");
  const content = (volume: string): string => readFileSync(contentOf(volume), "utf8");
  const own = (volumeId: string): string => volumeId.split("/")[1] ?? "";
  return {
    world,
    zfs: fake,
    callMs: 20_000,
    async pod({ volumeId, volumeContext }, source, done) {
      // There is no initiator for disks, and the TrueNAS has no content.
      if (source.connection === "files") expect(content(own(volumeId))).toBe(content(source.name));
      if (volumeContext["node_attach_driver"] !== "nfs") return async () => {};
      const [stagingTargetPath = "", targetPath = ""] = ["staging", "pods"].map(each =>
        join(sandbox.folder, each, own(volumeId)),
      );
      const where = { volumeId, stagingTargetPath, targetPath };
      const request = { ...where, volumeContext, volumeCapability: mountCapability };
      await done(() => world.node("nodeStageVolume", request, podMs).catch(unmountRamfs(stagingTargetPath)));
      await done(() => world.node("nodePublishVolume", request, podMs));
      return async () => {
        await done(() => world.node("nodeUnpublishVolume", where, podMs));
        await done(() => world.node("nodeUnstageVolume", where, podMs));
        await rmdir(stagingTargetPath);
      };
    },
    async kill() {
      signal(world.daemon.pid, "SIGKILL");
      await world.daemon.stop();
      healthSeconds = 2;
      await world.restart();
    },
    everything: () => ({
      ...onZfs(fake),
      ...onTrueNas(double),
      state: below(sandbox.stateDir),
      node: [...below(join(sandbox.folder, "staging")), ...below(join(sandbox.folder, "pods"))],
      mounts: mountsBelow(sandbox.folder),
    }),
    costs: () => ({ zfs: fake.commands(), truenas: double.requests.splice(0).map(({ method }) => method) }),
    fill: (volume, text) => writeFileSync(contentOf(volume), text),
    async end() {
      const left = await world.end();
      await sshd.stop();
      await double.close();
      await fake.close();
      return left;
    },
  };
}

/** The time limit of kubelet's calls, in milliseconds (Kubernetes 1.36, pkg/volume/csi/csi_plugin.go, csiTimeout). */
const podMs = 120_000;

/**
 * What MountProgram mounts is not of the type of a share, so that csimux does not recognize one that a call has mounted that was killed
 * right after it. This is how a person helps.
 */
const unmountRamfs =
  (path: string) =>
  (error: { readonly code?: number }): never => {
    if (error.code !== status.alreadyExists) throw error;
    execFileSync("umount", [path]);
    throw Object.assign(new Error("unmounted"), { code: status.unavailable });
  };

/** Datasets, snapshots, their properties, holds and exports, and the targets in the kernel and as they are saved. */
function onZfs(fake: FakeZfs): Everything {
  const saved = join(fake.folder, "lio-saveconfig.json");
  const things = fake.with(pools => pools.all().map(({ creation, txg, ...thing }) => thing));
  const parts = existsSync(saved) ? JSON.parse(readFileSync(saved, "utf8")) : {};
  return {
    zfs: things.sort((a, b) => (a.name < b.name ? -1 : 1)),
    targets: [...fake.targets()].sort(),
    saved: ["storage_objects", "targets"].map(key => JSON.stringify(parts[key] ?? [])),
  };
}

function onTrueNas({ state: { datasets, snapshots, tables } }: Double): Everything {
  return structuredClone({ datasets, snapshots, tables });
}

/** Mount points below a folder. */
const mountsBelow = (folder: string): readonly string[] =>
  readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .map(line => line.split(" ")[4] ?? "")
    .filter(point => point.startsWith(`${folder}/`));
