import { driverContract } from "../../contract/driver.ts";
import { zfsRig } from "./zfs-rig.ts";

const tombstones = { deleteWithDependents: "tombstone" };
const kept = {
  "snapshots hold their volume": "a volume that is still needed is set aside",
};
const held = {
  "snapshots survive their volume": "they are in it",
  "clones survive their volume": "they hang on it",
};

driverContract("zfs-generic-nfs", () => zfsRig({ driver: "zfs-generic-nfs", zfs: tombstones }), kept);
driverContract(
  "zfs-generic-smb that refuses to delete what is needed",
  () => zfsRig({ driver: "zfs-generic-smb" }),
  held,
);
driverContract("zfs-local-dataset", () => zfsRig({ driver: "zfs-local-dataset", zfs: tombstones }), kept);
driverContract("zfs-generic-iscsi", () => zfsRig({ driver: "zfs-generic-iscsi" }), held);
driverContract("zfs-local-zvol", () => zfsRig({ driver: "zfs-local-zvol", zfs: tombstones }), kept);
driverContract("zfs-generic-nvmeof", () => zfsRig({ driver: "zfs-generic-nvmeof", zfs: tombstones }), kept);
