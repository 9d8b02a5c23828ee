import { root, tool } from "../../../scripts/spawned.ts";
import { startServer, stopServer } from "./server.ts";

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

const script = "scripts/truenas-double.ts";

/** A TrueNAS without disks on the cluster's machine, which runs until it is ended. */
export const startNas = (): Promise<void> =>
  startServer(
    [tool("bun"), `${root}/${script}`, "--address", nas.host, "--port", String(nas.port)],
    nas.host,
    nas.port,
  );

/** Ends it. */
export const stopNas = (): Promise<void> => stopServer(script, nas.host, nas.port);
