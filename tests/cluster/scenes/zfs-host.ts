import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { until } from "../../../scripts/cluster/first-process.ts";
import { state } from "../../../scripts/cluster/place.ts";
import { root, tool } from "../../../scripts/spawned.ts";
import { nfsClients, nfsdForShells } from "../../fakes/zfs/nfsd.ts";
import { Pools } from "../../fakes/zfs/pool.ts";
import { startServer, stopServer } from "./server.ts";

const at = { host: "10.99.0.2", port: 6072 };
const script = "tests/cluster/scenes/zfs-double.ts";
const file = join(state, "zfs-host.json");

/** A storage host on the cluster's machine. Its NFS server is a model, so nodes cannot mount its volumes. */
export interface ZfsHost {
  /** The text of a connection file for it, and of one for disks. */
  readonly connection: string;
  readonly disks: string;
  /** The folder with the datasets of the volumes. */
  readonly volumes: string;
  /** The names of the datasets and snapshots below those of the first connection, without theirs. */
  stored(): readonly string[];
  /** Sets which dataset a client of the NFS server has a file open in. */
  open(volume: string | undefined): void;
  /** The file with the content of a disk; its folder may be missing. */
  contentOf(disk: string): string;
}

/** Starts it; it runs until it is ended. */
export async function startZfsHost(): Promise<ZfsHost> {
  await rm(file, { force: true });
  await startServer([tool("bun"), `${root}/${script}`, at.host, String(at.port), file], at.host, at.port);
  const { folder, hostKey, clientKey } = await until("the storage host says how to reach it", 10_000, async () => {
    const text = await readFile(file, "utf8").catch(() => "");
    return text !== "" && (JSON.parse(text) as { folder: string; hostKey: string; clientKey: string });
  });
  const volumes = join(folder, "mnt/tank/v");
  const common = {
    instance_id: "cluster-1",
    sshConnection: { ...at, username: "root", privateKey: clientKey, hostKey },
  };
  return {
    volumes,
    connection: JSON.stringify({
      driver: "zfs-generic-nfs",
      ...common,
      zfs: { datasetParentName: "tank/v", detachedSnapshotsDatasetParentName: "tank/s", datasetEnableQuotas: true },
      nfs: {
        shareHost: at.host,
        shareStrategy: "setDatasetProperties",
        shareStrategySetDatasetProperties: { properties: { sharenfs: "rw" } },
      },
    }),
    disks: JSON.stringify({
      driver: "zfs-generic-iscsi",
      ...common,
      zfs: { datasetParentName: "tank/disks/v", detachedSnapshotsDatasetParentName: "tank/disks/s" },
      iscsi: {
        targetPortal: `${at.host}:3260`,
        shareStrategy: "targetCli",
        shareStrategyTargetCli: { basename: "iqn.2024-01.org.example:cluster", tpg: {}, block: {} },
      },
    }),
    contentOf(disk) {
      const pools = new Pools(folder);
      const found = pools.find(`tank/disks/v/${disk}`);
      if (!found) throw new Error(`there is no disk ${disk}`);
      return join(pools.place(found), "data");
    },
    stored() {
      const pools = new Pools(folder);
      return ["tank/v", "tank/s"].flatMap(parent =>
        pools.below(parent).map(({ name }) => name.slice(parent.length).replace(/^\//, "")),
      );
    },
    open(volume) {
      const place = join(volumes, volume ?? "");
      nfsdForShells(folder, join(folder, "bin"), place);
      nfsClients(folder, volume === undefined ? [] : [{ id: 7, open: [place] }]);
    },
  };
}

/** Ends it. */
export async function stopZfsHost(): Promise<void> {
  await stopServer(script, at.host, at.port);
  await rm(file, { force: true });
}
