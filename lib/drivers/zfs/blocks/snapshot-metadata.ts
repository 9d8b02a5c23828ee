import type { Call } from "../../../core/call.ts";
import type { SnapshotMetadataAbility } from "../../driver.ts";
import { datasetOf, snapshotId } from "../names.ts";
import { bytesOf, ownValue, property, shownValue } from "../properties.ts";
import { findSnapshot } from "../sources.ts";
import type { CopyAccess } from "../storage.ts";
import { whyNotSent } from "../streams.ts";
import { type Entry, untrue } from "../zfs.ts";

/** What decides whether, and in which order, snapshots can be sent. */
const sentProperties = ["type", "createtxg", "volsize", "volblocksize", "encryption", "keystatus"] as const;

/** Lists of the blocks of zvols' snapshots, made by the storage host. */
export function datasetSnapshotMetadata({ storage, streams, blocks }: CopyAccess): SnapshotMetadataAbility {
  const { zfs, names } = storage;

  /** The name of a snapshot in its volume. Throws "not-found", and "failed-precondition" for a detached one. */
  async function named(id: string, call: Call): Promise<string> {
    const entry = await findSnapshot(storage, id, call);
    if (!entry || ownValue(entry, property.success) !== "true")
      throw storage.error("not-found", `snapshot "${id.slice(0, 128)}" does not exist`);
    if (entry.name.includes("@")) return entry.name;
    const text = `snapshot "${id}" is a detached one, whose blocks cannot be listed; make a full backup`;
    throw storage.error("failed-precondition", text);
  }

  /** The dataset and the snapshots with what decides whether they can be sent. */
  async function read(wanted: readonly string[], { signal }: Call): Promise<readonly Entry[]> {
    const entries = await zfs.read({ names: [names.pool, ...wanted], properties: sentProperties }, signal);
    return wanted.map(name => {
      const entry = entries.get(name);
      if (!entry) throw storage.error("not-found", `${name} does not exist`);
      return entry;
    });
  }

  async function* ranges(...[id, base, from, call]: Parameters<SnapshotMetadataAbility["ranges"]>) {
    if (base !== undefined && snapshotId(base)?.volume !== snapshotId(id)?.volume)
      throw storage.error("invalid-argument", `snapshots "${base}" and "${id}" are not of one volume`);
    const snapshot = await named(id, call);
    const earlier = base === undefined ? undefined : await named(base, call);
    const of = datasetOf(snapshot);
    if (earlier !== undefined && !earlier.startsWith(`${of}@`)) {
      const text = `${earlier} and ${snapshot} are of two volumes, one of which was deleted; make a full backup`;
      throw storage.error("failed-precondition", text);
    }
    const [dataset, target, first] = await read([of, snapshot, ...(earlier === undefined ? [] : [earlier])], call);
    if (first && txgOf(first) >= txgOf(target))
      throw storage.error("invalid-argument", `snapshot "${base}" was not taken before "${id}"`);
    const capacity = bytesOf(shownValue(target, "volsize"));
    const block = bytesOf(shownValue(dataset, "volblocksize"));
    if (capacity <= 0n || block <= 0n) throw untrue(`a zvol ${of}, with its size`);
    if (from > capacity)
      throw storage.error("out-of-range", `the starting offset ${from} is behind the ${capacity} bytes of "${id}"`);
    const encrypted = (shownValue(dataset, "encryption") ?? "off") !== "off";
    const why = dataset && whyNotSent(dataset, encrypted ? await streams.version(call.signal) : undefined);
    if (why !== undefined)
      throw storage.error("failed-precondition", `the blocks of ${of} cannot be listed: ${why}; make a full backup`);
    yield { capacity, ranges: [] };
    if (from === capacity) return;
    const wanted = { snapshot, base: earlier, size: capacity, block, from: from - (from % block) };
    for await (const some of blocks(wanted, call.signal)) yield { capacity, ranges: some };
  }

  return { ranges };
}

/** The number of the transaction group in which a snapshot was taken (zfsprops(7), createtxg). */
const txgOf = (entry: Entry | undefined): bigint => BigInt(shownValue(entry, "createtxg") ?? "0");
