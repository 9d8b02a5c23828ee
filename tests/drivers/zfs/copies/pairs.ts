import { copiesContract, sampleOf } from "../../../contract/copies/copies.ts";
import { streamsContract } from "../../../contract/copies/streams.ts";
import { drawn } from "../../../sample.ts";
import type { ZfsOptions } from "../zfs-rig.ts";
import { zfsPair } from "./pair-rig.ts";

// Every kind of source with every kind of target on ZFS. In each run there are file systems and zvols. The seed draws whether over ssh, and
// whether between hosts or within one.

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

/** Tests a pair of this content, and all of them where everything is tested. */
export function testPairs(content: "file systems" | "zvols"): void {
  const those = pairs.filter(([name]) => name.startsWith(content));
  for (const pair of drawn(those, 1)) {
    const [name, from, to, hosts] = pair;
    const sample = sampleOf(pairs.indexOf(pair), content === "zvols" ? 11 : 5);
    copiesContract(name, () => zfsPair(from, to, hosts), sample);
    streamsContract(name, () => zfsPair(from, to, hosts), sample);
  }
}
