import type { Call } from "../../../core/call.ts";
import {
  type CopySource,
  copyKey,
  type ProtectedSnapshot,
  type SourceSnapshot,
  type StreamStart,
} from "../../copying.ts";
import type { Source } from "../../driver.ts";
import {
  copySnapshotBefore,
  copySnapshotName,
  copyTag,
  datasetOf,
  isVolumeId,
  keyOfCopySnapshot,
  snapshotId,
} from "../names.ts";
import {
  bytesOf,
  isEncrypted,
  markProperties,
  markValues,
  otherOwner,
  ownValue,
  property,
  protectedIn,
  protectedProperty,
  protectedText,
  shownValue,
} from "../properties.ts";
import { protectedOf } from "../protected.ts";
import { copySourceOf, findSnapshot, snapshotBytes, snapshotProperties, volumeBytes } from "../sources.ts";
import type { CopyAccess } from "../storage.ts";
import { whyNotSent } from "../streams.ts";
import { removeFreed } from "../tombstones.ts";
import { volumeIn, volumeQuery } from "../volume.ts";
import { type Entry, untrue, ZfsError } from "../zfs.ts";

/** What a stream forces on its receiver, or can be sent at all. */
const traitProperties = [
  ...["type", "encryption", "keystatus", "volblocksize"],
  ...["casesensitivity", "normalization", "utf8only", "acltype"],
] as const;

/** The properties of a file system that its stream contains. */
const fixedProperties = ["casesensitivity", "normalization", "utf8only", "acltype"] as const;

const heldProperties = [...snapshotProperties, "userrefs"];

/** The dataset that a snapshot is taken of, or the snapshot that is one. */
interface SnapshotSource {
  readonly dataset: string;
  /** The snapshot to protect; undefined: one is taken. */
  readonly snapshot: string | undefined;
  /** The smallest size in bytes of a volume made of it; 0 if unknown. */
  readonly bytes: bigint;
  /** What is protected already, if it is this snapshot. */
  readonly since: ProtectedSnapshot | undefined;
}

/**
 * Snapshots that csimux takes of volumes, and CSI snapshots. Both are held with a tag of their own for each copy, and
 * a property names its target, so that one listing finds them again.
 */
export function datasetCopySource({ storage, streams }: CopyAccess): CopySource {
  const { zfs, names, settings, identity } = storage;
  const format = settings.volumes.type === "volume" ? "zfs:volume" : "zfs:filesystem";

  const missing = ({ kind, id }: Source) =>
    storage.error("not-found", `the source ${kind} "${id.slice(0, 128)}" does not exist`);

  async function sourceOf(source: Source, key: string, call: Call): Promise<SnapshotSource> {
    if (source.kind === "volume" || snapshotId(source.id)?.detached === true) {
      const { name, bytes } = await copySourceOf(storage, source, call);
      return { dataset: name, snapshot: undefined, bytes, since: undefined };
    }
    const entry = (await findSnapshot(storage, source.id, call)) ?? (await deletedSnapshot(source, key, call));
    if (!entry) throw missing(source);
    const dataset = datasetOf(entry.name);
    const properties = ["type", protectedProperty(key)];
    const found = (await zfs.read({ names: [entry.name], properties }, call.signal)).get(entry.name);
    const since = protectedIn(ownValue(found, protectedProperty(key)));
    return { dataset, snapshot: entry.name, bytes: snapshotBytes(entry), since };
  }

  /** A snapshot that was deleted (`zfs destroy -d`) after it was protected for this copy; it exists until it is released. */
  async function deletedSnapshot({ id }: Source, key: string, { signal }: Call): Promise<Entry | undefined> {
    const parts = snapshotId(id);
    if (!parts) return undefined;
    const name = names.snapshot(parts);
    const properties = [...heldProperties, protectedProperty(key)];
    const entry = (await zfs.read({ names: [names.pool, name], properties }, signal)).get(name);
    const isKept = ownValue(entry, protectedProperty(key)) !== undefined && shownValue(entry, "userrefs") !== "0";
    return entry && isKept && otherOwner(entry, settings.marks) === undefined ? entry : undefined;
  }

  /** The dataset whose content is sent. Throws "failed-precondition" if it must not be. */
  async function readable(dataset: string, { signal }: Call): Promise<Entry> {
    const entry = (await zfs.read({ names: [names.pool, dataset], properties: traitProperties }, signal)).get(dataset);
    if (!entry) throw storage.error("not-found", `${dataset} does not exist`);
    const version = isEncrypted(entry) === true ? await streams.version(signal) : undefined;
    const why = whyNotSent(entry, version);
    if (why !== undefined) throw storage.error("failed-precondition", `${dataset} cannot be sent: ${why}`);
    return entry;
  }

  /** Takes a snapshot of a dataset and holds it, or finds it. Throws "failed-precondition" for one that csimux did not take for this copy. */
  async function taken({ dataset, bytes }: SnapshotSource, target: string, pass: number, call: Call) {
    const { signal } = call;
    const key = copyKey(target);
    const snapshot = `${dataset}@${copySnapshotName(key, pass)}`;
    const values = {
      [protectedProperty(key)]: protectedText({ target, since: Math.floor(Date.now() / 1000) }),
      ...(bytes > 0n && { [property.bytes]: String(bytes) }),
      ...markValues(identity),
    };
    const query = { names: [names.pool, snapshot], properties: [...heldProperties, protectedProperty(key)] };
    const base = copySnapshotBefore(snapshot);
    const { made, ...first } = await streams.take(snapshot, values, copyTag(key), query, base, signal);
    const entry = first.entries.get(snapshot);
    if (!entry) throw untrue(`taken ${snapshot}`);
    if (made) return { entry, toSend: first.toSend };
    if (protectedIn(ownValue(entry, protectedProperty(key)))?.target !== target)
      throw storage.notOwn(`the snapshot ${snapshot} was not taken for "${target}"`);
    const held = await streams.hold(snapshot, {}, copyTag(key), query, base, signal).catch((error: unknown) => {
      // It was there: another process has ended this copy meanwhile.
      throw error instanceof ZfsError && error.failure === "absent" ? new ZfsError("changed", error.message) : error;
    });
    return { entry, toSend: held.toSend };
  }

  /** Protects a CSI snapshot. The property comes first: a hold without it would never be found again. */
  async function protectedSnapshot({ snapshot = "", since }: SnapshotSource, target: string, call: Call) {
    const key = copyKey(target);
    const text = protectedText({ target, since: Math.floor(Date.now() / 1000) });
    const values = since === undefined ? { [protectedProperty(key)]: text } : {};
    const query = { names: [names.pool, snapshot], properties: heldProperties };
    const held = await streams.hold(snapshot, values, copyTag(key), query, undefined, call.signal);
    const entry = held.entries.get(snapshot);
    if (!entry) throw untrue(`held ${snapshot}`);
    return { entry, toSend: held.toSend };
  }

  /** Everything here that is protected for copies. */
  async function all(properties: readonly string[], { signal }: Call): Promise<readonly Entry[]> {
    const wanted = ["userrefs", ...properties, ...markProperties];
    const [volumes, detached] = await Promise.all([
      zfs.below(names.parent, ["snapshot"], wanted, 2, signal),
      zfs.below(names.detachedParent, ["snapshot"], wanted, 3, signal),
    ]);
    const found = new Map([...volumes, ...detached].map(entry => [entry.name, entry]));
    return [...found.values()].filter(entry => otherOwner(entry, settings.marks) === undefined);
  }

  /** Gives up one snapshot: its hold, and the snapshot itself if it was taken for this copy. */
  async function given(snapshot: string, key: string, { signal }: Call): Promise<void> {
    await streams.release(snapshot, copyTag(key), signal);
    if (keyOfCopySnapshot(snapshot) === key) return zfs.destroy(snapshot, { deferred: true }, signal);
    // A snapshot that was to be destroyed is gone now.
    if ((await zfs.read({ names: [names.pool, snapshot], properties: ["type"] }, signal)).has(snapshot))
      await zfs.set(snapshot, { [protectedProperty(key)]: undefined }, signal);
  }

  return {
    content: settings.volumes.type === "volume" ? "blocks" : "files",
    async protect(source, target, pass, call): Promise<SourceSnapshot> {
      const found = await sourceOf(source, copyKey(target), call);
      const dataset = await readable(found.dataset, call);
      const { entry, toSend } =
        found.snapshot === undefined
          ? await taken(found, target, pass, call)
          : await protectedSnapshot(found, target, call);
      const proof = shownValue(entry, "guid");
      if (proof === undefined) throw untrue(`taken ${entry.name}, with its guid`);
      return {
        ...{ name: entry.name, proof, toSend, stable: true },
        bytes: volumeBytes(entry) || found.bytes,
        traits: {
          encrypted: isEncrypted(dataset),
          blockBytes: bytesOf(shownValue(dataset, "volblocksize")),
          fixed: Object.fromEntries(
            fixedProperties.flatMap(name => {
              const value = shownValue(dataset, name);
              return value === undefined ? [] : [[name, value]];
            }),
          ),
        },
      };
    },
    async release(target, keep, call) {
      const key = copyKey(target);
      const isOwn = (entry: Entry) => protectedIn(ownValue(entry, protectedProperty(key)))?.target === target;
      const found = (await all([protectedProperty(key)], call)).filter(isOwn).map(({ name }) => name);
      const freed = found.filter(name => name !== keep?.name);
      for (const name of freed) await given(name, key, call);
      await removeFreed(storage, freed, call);
    },
    async protectedSnapshots(call) {
      const found = await all([], call);
      const kept = found.filter(
        each => shownValue(each, "userrefs") !== "0" || keyOfCopySnapshot(each.name) !== undefined,
      );
      return [...(await protectedOf(storage, streams, kept, call))].flatMap(([name, all]) => {
        const id = datasetOf(name.slice(names.parent.length + 1));
        const volume = name.startsWith(`${names.parent}/`) && isVolumeId(id) ? id : undefined;
        return all.map(each => ({ volume, ...each }));
      });
    },
    async freeze(id, on, { signal }) {
      const query = volumeQuery(settings, names, id);
      const entries = isVolumeId(id) ? await zfs.read(query, signal) : new Map<string, Entry>();
      const volume = volumeIn(id, entries.get(names.dataset(id)), settings);
      if (!volume?.finished) throw storage.error("not-found", `volume "${id.slice(0, 128)}" does not exist`);
      await zfs.set(volume.dataset, { readonly: on ? "on" : "off" }, signal);
    },
    stream: {
      format,
      machine: streams.machine,
      open(snapshot: SourceSnapshot, start: StreamStart, basic: boolean, tells = false) {
        if (start.kind === "token") return streams.resume(start.token, tells);
        if (start.kind === "whole") return streams.send(snapshot.name, undefined, basic, tells);
        // Its name comes from the target, which does not decide what is sent from here.
        const base = copySnapshotBefore(snapshot.name);
        if (base !== undefined && start.snapshot.name === base) return streams.send(snapshot.name, base, basic, tells);
        const what = `the changes of ${snapshot.name} since "${start.snapshot.name.slice(0, 256)}" are not sent`;
        const why = "that is not the snapshot of the pass before; cancel the copy and repeat it";
        throw storage.error("failed-precondition", `${what}: ${why}`);
      },
      isTokenOf: async (token, { proof }, { signal }) => (await streams.guidOf(token, signal)) === proof,
    },
  };
}
