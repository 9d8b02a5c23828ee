import type { DriverFacts } from "../facts.ts";
import { choosable } from "./parameters.ts";

/** Parameters of classes that every driver on ZFS reads. */
export const zfsParameters: DriverFacts["parameters"] = {
  volume: [...["detachedVolumesFromSnapshots", "detachedVolumesFromVolumes"], ...choosable.map(name => `zfs.${name}`)],
  snapshot: ["detachedSnapshots"],
};

/** The parent datasets of volumes and of detached snapshots, on the host whose API or shell is used. */
export const zfsTerritory: DriverFacts["territory"] = {
  system: "zfs",
  hosts: [
    ["httpConnection", "host"],
    ["sshConnection", "host"],
  ],
  trees: [
    ["zfs", "datasetParentName"],
    ["zfs", "detachedSnapshotsDatasetParentName"],
  ],
  marked: "some",
};
