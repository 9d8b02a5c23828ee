import { driverContract } from "../../contract/driver.ts";
import type { Need } from "../../contract/needs.ts";
import { shareRig } from "../../contract/parts.ts";
import { shareContract } from "../../contract/share.ts";
import { numberOf, recentVersions, type Version } from "../../fakes/truenas/versions.ts";
import { drawn } from "../../sample.ts";
import { type Protocol, truenasRig } from "./rig.ts";

/** From here on a dataset can be renamed, so that one which others need can be set aside. */
const withRename = 2510;

const lacks = (version: Version): Readonly<Partial<Record<Need, string>>> => ({
  "loss of power": "ZFS answers when its transaction group is on stable storage",
  groupSnapshots: "TrueNAS takes no snapshots of several volumes at one moment",
  ...(numberOf(version) >= withRename && {
    "snapshots hold their volume": "the volume is set aside until they are gone",
  }),
  ...(numberOf(version) < withRename && {
    "clones survive their volume": "before 25.10 no dataset can be renamed through the API",
    "snapshots survive their volume": "before 25.10 no dataset can be renamed through the API",
    "a second generation": "before 25.10 the API shows no guid of a dataset",
  }),
});

const first: Readonly<Record<Protocol, number>> = { nfs: 0, smb: 0, iscsi: 0, nvmeof: 2510 };

const pairsOf = (protocols: readonly Protocol[]) =>
  protocols.flatMap(protocol =>
    recentVersions.filter(each => numberOf(each) >= first[protocol]).map(version => ({ protocol, version })),
  );

// One protocol of files and one of disks, on versions that differ as far as they can. Every share has its own contract below.
for (const { protocol, version } of [
  ...drawn(pairsOf(["nfs", "smb"]), 1),
  ...drawn(pairsOf(["iscsi", "nvmeof"]), 1, 2),
]) {
  const zfs = numberOf(version) < withRename ? {} : { deleteWithDependents: "tombstone" };
  const open = () => truenasRig(protocol, { version }, { zfs });
  driverContract(`freenas-api-${protocol} on TrueNAS ${version}`, open, lacks(version));
}

const newest = { version: "25.10" } as const;
shareContract("PathShare over NFS", async () => shareRig(await truenasRig("nfs", newest)));
shareContract("PathShare over SMB", async () => shareRig(await truenasRig("smb", newest)));
shareContract("DiskShare over iSCSI", async () => shareRig(await truenasRig("iscsi", newest)));
shareContract("DiskShare over NVMe-oF", async () => shareRig(await truenasRig("nvmeof", newest)));
