import { driverContract } from "../../contract/driver.ts";
import { shareRig, storeRig } from "../../contract/parts.ts";
import { shareContract } from "../../contract/share.ts";
import { storeContract } from "../../contract/store.ts";
import { zfsRig } from "./zfs-rig.ts";

const tombstones = { deleteWithDependents: "tombstone" };
const synced = { "loss of power": "ZFS answers when its transaction group is on stable storage" };
const kept = {
  ...synced,
  "snapshots hold their volume": "a volume that is still needed is set aside",
};
const held = {
  ...synced,
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

const files = () => zfsRig({ driver: "zfs-generic-nfs" });
const disks = () => zfsRig({ driver: "zfs-generic-iscsi" });
storeContract("DatasetStore of file systems", async () => storeRig(await files(), []), {
  ...synced,
  notes: "shares keep none of a file system",
});
storeContract("DatasetStore of zvols", async () => storeRig(await disks(), ["iscsi_assets_name"]), synced);
shareContract("propertyShare", async () => shareRig(await files()));
shareContract("TargetShare on LIO", async () => shareRig(await disks()));
shareContract("TargetShare on nvmet", async () => shareRig(await zfsRig({ driver: "zfs-generic-nvmeof" })));
shareContract("TargetShare on SPDK", async () => shareRig(await zfsRig({ driver: "zfs-generic-nvmeof", spdk: true })));
