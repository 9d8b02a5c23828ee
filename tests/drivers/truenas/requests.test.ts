import { describe, expect, test } from "bun:test";
import type { Source } from "../../../lib/drivers/driver.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { numberOf, recentVersions, type Version } from "../../fakes/truenas/versions.ts";
import { on, remainsOf, type Way } from "./rig.ts";

/** How many requests each operation costs, apart from logins and questions about jobs. */

const call = callWith();

const operations = ["create", "snapshot", "restore", "clone", "delete snapshot", "delete"] as const;
type Operation = (typeof operations)[number];

/**
 * In the order of the operations. What is asked beside the changes proves something. Of a creation: that nobody else exports the path
 * (NFS, SMB); which zvol it is that the target is named after, that this name stands on the volume before anything bears it, and what
 * the names of the system's targets begin with (iSCSI, NVMe). Of a snapshot: that no other volume has one of this name, attached or
 * detached, and that its volume is there. Of a copy: that nothing has its name yet, that its source is there, and what stands there
 * afterwards. Of a deletion: what the volume is, what lies below it, and which shares lead to it.
 */
const upTo2504: Partial<Record<Way, readonly number[]>> = {
  nfs: [4, 4, 7, 9, 2, 5],
  smb: [4, 4, 7, 9, 2, 5],
  iscsi: [7, 4, 10, 12, 2, 7],
};

/** The pool of a snapshot's volume is asked for in a request of its own. */
const in2510: typeof upTo2504 = {
  nfs: [4, 4, 8, 9, 2, 5],
  smb: [4, 4, 8, 9, 2, 5],
  iscsi: [8, 4, 11, 12, 2, 7],
  nvmeof: [7, 4, 10, 11, 2, 8],
};

/**
 * A clone gets its properties under another name first, since no request takes both; clones of snapshots are looked for in all of the
 * pool; what the answers to a snapshot and a deletion leave open is read.
 */
const in26: typeof upTo2504 = {
  nfs: [4, 6, 15, 18, 3, 6],
  smb: [4, 6, 15, 18, 3, 6],
  iscsi: [8, 6, 18, 21, 3, 8],
  nvmeof: [7, 6, 17, 20, 3, 9],
};

/** Targets cannot be deleted together with their extents. */
const in2410: typeof upTo2504 = { ...upTo2504, iscsi: [7, 4, 10, 12, 2, 8] };

function expected(version: Version): typeof upTo2504 {
  const number = numberOf(version);
  if (number >= 2600) return in26;
  if (number >= 2510) return in2510;
  return number >= 2504 ? upTo2504 : in2410;
}

/** The least that each operation took in a few lives: what lies above volumes is read again every few seconds. */
async function counts(version: Version, way: Way): Promise<readonly number[]> {
  const least = new Map<Operation, number>();
  await on({ version }, way, async (driver, double) => {
    const counted = async <T>(operation: Operation, work: () => Promise<T>): Promise<T> => {
      double.requests.length = 0;
      const done = await work();
      const asked = double.requests.filter(({ method }) => method !== "core.get_jobs").length;
      least.set(operation, Math.min(least.get(operation) ?? asked, asked));
      return done;
    };
    const snapshots = snapshotsOf(driver);
    for (const life of ["a", "b", "c", "d"]) {
      const { id } = await counted("create", () => driver.create(volumeOf(`v-${life}`), call));
      const snapshot = await counted("snapshot", () => snapshots.create(`s-${life}`, id, {}, call));
      const from = (name: string, source: Source) => driver.create(volumeOf(`${name}-${life}`, gib, source), call);
      const restored = await counted("restore", () => from("r", { kind: "snapshot", id: snapshot.id }));
      const clone = await counted("clone", () => from("c", { kind: "volume", id }));
      for (const each of [restored, clone]) await driver.delete(each.id, call);
      await counted("delete snapshot", () => snapshots.delete(snapshot.id, call));
      await counted("delete", () => driver.delete(id, call));
    }
    expect(remainsOf(double)).toEqual([]);
  });
  return operations.map(operation => least.get(operation) ?? Number.NaN);
}

describe.each(recentVersions)("on TrueNAS %s", version => {
  test.each(Object.entries(expected(version)) as [Way, readonly number[]][])(
    "the operations of volumes over %s take no more requests than they need",
    async (way, wanted) => expect(await counts(version, way)).toEqual([...wanted]),
  );
});
