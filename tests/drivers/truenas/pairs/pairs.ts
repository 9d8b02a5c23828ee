import { copiesContract, sampleOf } from "../../../contract/copies/copies.ts";
import { streamsContract } from "../../../contract/copies/streams.ts";
import { drawn } from "../../../sample.ts";
import { type PairKind, trueNasPair } from "./pair-rig.ts";

// Connections to TrueNAS with each other, and with those of ZFS drivers. In each run there are file systems and zvols. The seed draws whether
// with ssh or the API, and whether between two systems or within one.

const pairs: readonly (readonly [string, PairKind, PairKind, 1 | 2])[] = [
  [
    "file systems of two TrueNAS with the API",
    { kind: "api", protocol: "nfs", version: "25.10" },
    { kind: "api", protocol: "nfs", version: "26.0" },
    2,
  ],
  [
    "zvols of TrueNAS with ssh and of one with the API",
    { kind: "ssh", protocol: "iscsi", version: "24.10" },
    { kind: "api", protocol: "iscsi", version: "25.04" },
    2,
  ],
  [
    "file systems of one TrueNAS with the API",
    { kind: "api", protocol: "nfs", version: "25.10" },
    { kind: "api", protocol: "nfs", version: "25.10" },
    1,
  ],
  [
    "file systems of TrueNAS with the API and of a ZFS driver",
    { kind: "api", protocol: "nfs", version: "24.10" },
    { kind: "zfs", options: { driver: "zfs-generic-nfs" } },
    2,
  ],
  [
    "zvols of a ZFS driver and of TrueNAS with ssh",
    { kind: "zfs", options: { driver: "zfs-generic-iscsi" } },
    { kind: "ssh", protocol: "nvmeof", version: "25.10" },
    2,
  ],
];

/** Tests a pair of this content, and all of them where everything is tested. */
export function testPairs(content: "file systems" | "zvols"): void {
  const those = pairs.filter(([name]) => name.startsWith(content));
  for (const pair of drawn(those, 1)) {
    const [name, from, to, systems] = pair;
    const sample = sampleOf(pairs.indexOf(pair) + 5, 11);
    copiesContract(name, () => trueNasPair(from, to, systems), sample);
    streamsContract(name, () => trueNasPair(from, to, systems), sample);
  }
}
