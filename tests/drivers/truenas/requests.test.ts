import { describe, expect, test } from "bun:test";
import type { Source } from "../../../lib/drivers/driver.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { numberOf, recentVersions, type Version } from "../../fakes/truenas/versions.ts";
import { on, type Protocol, remainsOf } from "./rig.ts";

/** The number of requests of each operation, apart from logins and queries of jobs. */

const call = callWith();

const operations = ["create", "snapshot", "restore", "clone", "delete snapshot", "delete"] as const;
type Operation = (typeof operations)[number];

/**
 * In the order of the operations. Each request changes or proves something:
 * - create, NFS and SMB (4): create the dataset; prove that no other share of its path exists, which the server would accept besides;
 *   create the share; finish the volume.
 * - create, iSCSI (10, from 25.10 on 8): create the zvol; read its guid, which the target is named after (25.10); keep this name before any
 *   object has it, to find the objects of an interrupted creation although a template may use parameters that a deletion does not know;
 *   create extent, target and link; finish the volume. The basename of the system is read every few seconds.
 * - snapshot (2): prove that the volume exists; take it. All names of snapshots, attached or detached, are read every quarter of an hour, and
 *   asked for only where one of them is the new one.
 * - clone, NFS (9): prove that the name is free, before a temporary snapshot is taken, and that the source exists; take, clone and destroy
 *   the temporary snapshot; read the clone, because the server answers nothing about it; prove that no share of its path exists; create
 *   the share; finish the volume. A restore needs no temporary snapshot, but proves that its snapshot is a finished one of csimux, and reads
 *   how its dataset keeps access control lists; what is remembered of the datasets above then serves no deletion, which asks for less.
 *   The size of a temporary snapshot of a zvol is read, because the zvol may have grown since it was read.
 * - delete a snapshot: read it and the datasets above, which proves right before the deletion what it is; delete it; 26 needs to be asked for the
 *   result.
 * - delete: read the volume, all that depends on it, and the objects that share it; delete these, and the volume. Up to 25.10 the server deletes
 *   the NFS shares of a volume with it.
 *
 * From 25.10 on datasets show a guid, as snapshots always do: one request more proves before a deletion, and before a change of a volume whose
 * guid is known, that no other controller has deleted it and made another one of its name. A volume needs none before its name is kept, because
 * the request before was the one that read the guid. Before 25.10, the target and the extent of an iSCSI volume are read again
 * before and after they are linked instead: four requests.
 */
const upTo2504: Partial<Record<Protocol, readonly number[]>> = {
  nfs: [4, 2, 8, 9, 2, 3],
  smb: [4, 2, 8, 9, 2, 5],
  iscsi: [10, 2, 13, 16, 2, 7],
};

/** The pool of a snapshot's volume is read with a request of its own. So is the base NQN, without which sessions of a subsystem may be missed. */
const in2510: typeof upTo2504 = {
  nfs: [4, 2, 9, 10, 3, 4],
  smb: [4, 2, 9, 10, 3, 6],
  iscsi: [8, 2, 11, 13, 2, 8],
  nvmeof: [8, 2, 11, 13, 2, 10],
};

/**
 * A clone gets its properties under another name first, because no request takes both; clones of snapshots are searched in the whole
 * pool; the result of a deletion is read, because the answer does not prove it. Whether a name is free and what a source is are one request.
 */
const in26: typeof upTo2504 = {
  nfs: [4, 2, 10, 11, 4, 7],
  smb: [4, 2, 10, 11, 4, 7],
  iscsi: [8, 2, 12, 14, 3, 9],
  nvmeof: [8, 2, 12, 14, 3, 10],
};

/** Targets cannot be deleted together with their extents. */
const in2410: typeof upTo2504 = { ...upTo2504, iscsi: [10, 2, 13, 16, 2, 8] };

function expected(version: Version): typeof upTo2504 {
  const number = numberOf(version);
  if (number >= 2600) return in26;
  if (number >= 2510) return in2510;
  return number >= 2504 ? upTo2504 : in2410;
}

/** The fewest requests of each operation in several lives: the parents of volumes are read again every few seconds. */
async function counts(version: Version, protocol: Protocol): Promise<readonly number[]> {
  const least = new Map<Operation, number>();
  await on({ version }, protocol, async (driver, double) => {
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
  test.each(Object.entries(expected(version)) as [Protocol, readonly number[]][])(
    "the operations of volumes over %s take this number of requests",
    async (protocol, wanted) => expect(await counts(version, protocol)).toEqual([...wanted]),
  );
});
