import { copiesContract, sampleOf } from "../../../contract/copies/copies.ts";
import { streamsContract } from "../../../contract/copies/streams.ts";
import type { ZfsOptions } from "../zfs-rig.ts";
import { zfsPair } from "./pair-rig.ts";

// Every kind of giver with every kind of taker on ZFS.

const nfs: ZfsOptions = { driver: "zfs-generic-nfs" };

const pairs: readonly (readonly [string, ZfsOptions, ZfsOptions, 1 | 2])[] = [
  ["file systems of two hosts behind ssh", { ...nfs, ssh: "one" }, { ...nfs, ssh: "two" }, 2],
  [
    "zvols of two hosts behind ssh",
    { driver: "zfs-generic-iscsi", ssh: "one" },
    { driver: "zfs-generic-nvmeof", ssh: "two" },
    2,
  ],
  ["file systems of this node and a host behind ssh", { driver: "zfs-local-dataset" }, { ...nfs, ssh: "two" }, 2],
  ["file systems of one host behind ssh", { ...nfs, ssh: "one" }, { ...nfs, ssh: "one" }, 1],
  ["zvols of this node", { driver: "zfs-local-zvol" }, { driver: "zfs-local-zvol" }, 1],
];

for (const [at, [name, from, to, hosts]] of pairs.entries()) {
  const sample = sampleOf(at, at === 0 ? 3 : 11);
  copiesContract(name, () => zfsPair(from, to, hosts), sample);
  streamsContract(name, () => zfsPair(from, to, hosts), sample);
}
