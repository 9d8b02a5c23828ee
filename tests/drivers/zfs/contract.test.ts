import { driverContract } from "../../contract/driver.ts";
import type { Need } from "../../contract/needs.ts";
import { shareRig, storeRig } from "../../contract/parts.ts";
import { shareContract } from "../../contract/share.ts";
import { storeContract } from "../../contract/store.ts";
import { sampled } from "../../sample.ts";
import { crossmnt, type ZfsOptions, zfsRig } from "./zfs-rig.ts";

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

const drivers: readonly (readonly [
  name: string,
  options: ZfsOptions,
  lacks: Readonly<Partial<Record<Need, string>>>,
])[] = [
  ["zfs-generic-nfs", { driver: "zfs-generic-nfs", zfs: tombstones }, kept],
  ["zfs-generic-iscsi", { driver: "zfs-generic-iscsi" }, held],
  ["zfs-generic-smb that refuses to delete what is needed", { driver: "zfs-generic-smb" }, held],
  ["zfs-local-dataset", { driver: "zfs-local-dataset", zfs: tombstones }, kept],
  ["zfs-local-zvol", { driver: "zfs-local-zvol", zfs: tombstones }, kept],
  ["zfs-generic-nvmeof", { driver: "zfs-generic-nvmeof", zfs: tombstones }, kept],
];
const usual: readonly string[] = ["zfs-generic-nfs", "zfs-generic-iscsi"];

// Both kinds of store in each run. Every share has its own contract below.
for (const [name, options, lacks] of sampled(drivers, ([each]) => usual.includes(each)))
  driverContract(name, () => zfsRig(options), lacks);

const files = () => zfsRig({ driver: "zfs-generic-nfs" });
const disks = () => zfsRig({ driver: "zfs-generic-iscsi" });
/** While the parent of volumes does not exist, none is reported as removed. */
const withParent = async (rig: ReturnType<typeof zfsRig>) => {
  (await rig).fake.zfs("create", "-p", "tank/k/v");
  return rig;
};
storeContract("DatasetStore of file systems", async () => storeRig(await withParent(files()), []), {
  ...synced,
  notes: "shares keep none of a file system",
});
storeContract("DatasetStore of zvols", async () => storeRig(await withParent(disks()), ["iscsi_assets_name"]), synced);
shareContract("propertyShare", async () => shareRig(await files()));
shareContract("withCrossmnt", async () => shareRig(await zfsRig({ driver: "zfs-generic-nfs", section: crossmnt })));
shareContract("withUsershares", async () => shareRig(await zfsRig({ driver: "zfs-generic-smb" })));
shareContract("TargetShare on LIO", async () => shareRig(await disks()));
shareContract("TargetShare on nvmet", async () => shareRig(await zfsRig({ driver: "zfs-generic-nvmeof" })));
shareContract("TargetShare on SPDK", async () => shareRig(await zfsRig({ driver: "zfs-generic-nvmeof", spdk: true })));
