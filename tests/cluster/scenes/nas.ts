import { inMachine } from "../../../scripts/cluster/machine.ts";
import { kill } from "../../../scripts/cluster/processes.ts";
import { root, tool } from "../../../scripts/spawned.ts";
import { eventually } from "../kube.ts";
import { processes } from "../processes.ts";

/** The address of the machine for its pods. */
export const nas = { host: "10.99.0.2", port: 6071 };

/** A connection file for it. */
export const nasConnection = JSON.stringify({
  driver: "truenas-api-nfs",
  httpConnection: { protocol: "http", ...nas, username: "csi", password: "correct horse" },
  zfs: {
    datasetParentName: "tank/k8s/v",
    detachedSnapshotsDatasetParentName: "tank/k8s/s",
    datasetEnableQuotas: true,
  },
  nfs: { shareHost: nas.host },
});

/** A TrueNAS without disks on the cluster's machine, which runs until it is killed. */
export async function startNas(): Promise<void> {
  const flags = ["--address", nas.host, "--port", String(nas.port)];
  void inMachine([tool("bun"), `${root}/scripts/truenas-double.ts`, ...flags], 3_600_000);
  const reached = async () => (await inMachine(["bash", "-c", `: </dev/tcp/${nas.host}/${nas.port}`])).code === 0;
  await eventually("the TrueNAS listens", 60_000, reached);
}

/** Ends it. */
export async function stopNas(): Promise<void> {
  kill((await processes()).filter(({ command }) => command.includes("truenas-double.ts")));
}
