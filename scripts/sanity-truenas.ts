import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startDouble } from "../tests/fakes/truenas/double.ts";
import { tableNames } from "../tests/fakes/truenas/state.ts";
import { numberOf, type Version, versions } from "../tests/fakes/truenas/versions.ts";
import type { Sandbox } from "./sandbox.ts";
import type { Storage } from "./sanity-storages.ts";

/** The drivers for TrueNAS over its API, on a double of each version that has them. */

const shares = {
  nfs: { nfs: { shareHost: "127.0.0.1" } },
  smb: { smb: { shareHost: "127.0.0.1" } },
  iscsi: { iscsi: { targetPortal: "127.0.0.1", targetGroups: [{ targetGroupPortalGroup: "main" }] } },
  nvmeof: { nvmeof: { transports: ["tcp://127.0.0.1:4420"] } },
} as const;

type Way = keyof typeof shares;

/** A TrueNAS with the connection "nas". */
const begin =
  (way: Way, version: Version) =>
  async ({ connections }: Sandbox): Promise<Storage> => {
    const nas = await startDouble({ version });
    const usual = new Set(["tank", "tank/k8s", "tank/k8s/v", "tank/k8s/s"]);
    const http = { protocol: "http", host: "127.0.0.1", port: nas.port, apiKey: "1-secret" };
    const quotas = way === "nfs" || way === "smb" ? { datasetEnableQuotas: true } : {};
    const zfs = { datasetParentName: "tank/k8s/v", detachedSnapshotsDatasetParentName: "tank/k8s/s", ...quotas };
    const file = { driver: `truenas-api-${way}`, httpConnection: http, zfs, ...shares[way] };
    await writeFile(join(connections, "nas.yaml"), JSON.stringify(file));
    const before = tableNames.map(name => nas.state.tables[name].length);
    const left = async () => [
      ...Object.keys(nas.state.datasets).filter(name => !usual.has(name)),
      ...Object.keys(nas.state.snapshots),
      ...tableNames.filter((name, at) => nas.state.tables[name].length !== before[at]),
    ];
    return { left, stop: () => nas.close() };
  };

/** Those that stand for all: most protocols, each generation of the API. The others run when they are named. */
const usualOnes: readonly string[] = ["smb 13.0", "iscsi 25.10", "nfs 26.0"];

/** As the variants of sanity.ts. */
export const truenasVariants = (["nfs", "smb", "iscsi", "nvmeof"] as const).flatMap(way =>
  versions
    .filter(version => way !== "nvmeof" || numberOf(version) >= 2510)
    .map(version => ({
      name: `TrueNAS ${version} over ${way}, without nodes`,
      kind: "off" as const,
      parameters: { connection: "nas" },
      leave: "Node Service",
      begin: begin(way, version),
      named: !usualOnes.includes(`${way} ${version}`),
    })),
);
