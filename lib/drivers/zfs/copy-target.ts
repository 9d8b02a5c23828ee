import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { CopyMethod, CopySpec, SourceSnapshot, StoredCopy } from "../copying.ts";
import { maxRecordBytes, whyNotPlain } from "../copying.ts";
import type { CopyTargetStore } from "../store.ts";
import { type CreationPlan, creationPlan } from "./creation.ts";
import { finishCopy } from "./finish-copy.ts";
import { isReceived, isVolumeId, receivedName } from "./names.ts";
import {
  bytesOf,
  isFinishedCopy,
  markProperties,
  markValues,
  otherOwner,
  ownValue,
  property,
  shownValue,
} from "./properties.ts";
import { refuseSameShare } from "./shares/properties.ts";
import { destroyFamily } from "./sources.ts";
import type { CopyAccess } from "./storage.ts";
import { receivingProperties, spaceFor, whyNotReceived } from "./streams.ts";
import { blockBytes, blockSizeOf } from "./values.ts";
import type { ZfsVolume } from "./volume.ts";
import { type Entry, untrue, ZfsError } from "./zfs.ts";

/** Nothing mounts or shares a record, or a target: `zfs mount -a` passes both over. */
const unreachable = { mountpoint: "none", sharenfs: "off", sharesmb: "off" } as const;

const recordProperties = ["type", property.copy, property.cancelled, ...markProperties] as const;
const targetProperties = [
  ...["type", "encryption", "receive_resume_token", property.copyTarget, property.proof],
  ...[property.copyOf, property.success, ...markProperties],
] as const;

/** The text of a record as a property. Throws "invalid-argument" for one that is too long. */
function recordText(record: string): string {
  if (Buffer.byteLength(record) <= maxRecordBytes) return Buffer.from(record).toString("base64url");
  throw new CsiError("invalid-argument", `the record of a copy must be at most ${maxRecordBytes} bytes long`);
}

/** The record in such a property; text that csimux did not write is returned as it is, because nothing may be lost. */
function recordIn(text: string): string {
  const record = Buffer.from(text, "base64url");
  return record.toString("base64url") === text ? record.toString() : text;
}

/**
 * Targets of copies: a dataset with the record, which holds no data, and next to it the dataset that receives the content. Neither is ever a
 * volume; the second becomes one by its last rename.
 */
export function datasetCopyTarget({ storage, streams, made = {} }: CopyAccess): CopyTargetStore<ZfsVolume> {
  const { zfs, names, settings, identity } = storage;
  const { marks } = settings;
  const isZvol = settings.volumes.type === "volume";

  /** The record in a dataset; undefined if it is not one of this connection. */
  function recordOf(entry: Entry | undefined): StoredCopy | undefined {
    const id = entry && names.recordOf(entry.name);
    const text = ownValue(entry, property.copy);
    if (!entry || id === undefined || text === undefined || !isOwn(entry)) return undefined;
    return { id, record: recordIn(text), ...(ownValue(entry, property.cancelled) && { isCancelled: true }) };
  }

  /** Whether this connection has made it: only then are the marks of its maker set on it. */
  const isOwn = (entry: Entry): boolean =>
    ownValue(entry, property.driver) !== undefined && otherOwner(entry, marks) === undefined;

  const isOwnTarget = (id: string, entry: Entry): boolean =>
    isOwn(entry) && ownValue(entry, property.copyTarget) === id;

  async function read(id: string, { signal }: Call) {
    const [record, target, volume] = [names.record(id), names.copyTarget(id), names.dataset(id)];
    const properties = [...new Set([...recordProperties, ...targetProperties])];
    const entries = await zfs.read({ names: [names.pool, record, target, volume], properties }, signal);
    return { record: entries.get(record), target: entries.get(target), volume: entries.get(volume) };
  }

  const gone = (id: string) => storage.error("not-found", `the copy of "${id.slice(0, 128)}" does not exist`);
  const foreign = (name: string, what: string) =>
    storage.notOwn(`the dataset ${name} exists, and nothing proves that it is ${what} of this connection`);

  /** The target itself, if there is one. Throws "failed-precondition" unless it is this connection's, with its record. */
  const targetOf = async (id: string, call: Call) => targetIn(id, await read(id, call));

  function targetIn(id: string, { record, target }: Awaited<ReturnType<typeof read>>): Entry | undefined {
    if (target && !(recordOf(record) && isOwnTarget(id, target))) throw foreign(target.name, "the target of a copy");
    return target;
  }

  /**
   * The token of a target that has no mark yet. ZFS sets the properties of a dataset after it has begun to receive it
   * (module/zfs/zfs_ioctl.c, zfs_ioc_recv_impl), and a loss of power in between leaves one; the stream that continues it sets them again.
   */
  function unmarkedToken({ record, target }: Awaited<ReturnType<typeof read>>): string | undefined {
    if (!target || !recordOf(record)) return undefined;
    const marks = [...markProperties, property.copyTarget, property.proof];
    return marks.every(name => ownValue(target, name) === undefined)
      ? shownValue(target, "receive_resume_token")
      : undefined;
  }

  /** The nearest dataset above all volumes that exists. */
  async function above({ signal }: Call): Promise<Entry | undefined> {
    const parts = names.parent.split("/");
    const all = parts.map((_, at) => parts.slice(0, at + 1).join("/"));
    const entries = await zfs.read({ names: all, properties: receivingProperties }, signal);
    return entries.get(all.filter(name => entries.has(name)).at(-1) ?? "");
  }

  function planOf(spec: CopySpec, { bytes, traits }: SourceSnapshot): CreationPlan {
    const plan = creationPlan(storage, spec, bytes, isZvol && traits.blockBytes > 0n ? traits.blockBytes : 1n);
    return { ...plan, values: { ...made, ...plan.values } };
  }

  /** Throws why this snapshot cannot become this volume. */
  async function refuse(method: CopyMethod, spec: CopySpec, snapshot: SourceSnapshot, call: Call): Promise<void> {
    const { values, bytes } = planOf(spec, snapshot);
    if (method !== "zfs-send" && method !== "zfs-send-local")
      throw storage.error("invalid-argument", `volumes of ZFS are made of streams, and not by the way "${method}"`);
    const { blockBytes: block, encrypted } = snapshot.traits;
    const asked =
      spec.parameters["zfs.volblocksize"] === undefined ? undefined : blockSizeOf(settings, spec.parameters);
    if (asked !== undefined && blockBytes(asked) !== block)
      throw storage.error(
        "failed-precondition",
        `the class asks for zfs.volblocksize ${asked}, and a copy keeps that of its source: ${block} bytes`,
      );
    const parent = await above(call);
    const isPlain = (shownValue(parent, "encryption") ?? "off") === "off";
    const why = whyNotPlain(encrypted, !isPlain) ?? whyNotReceived(snapshot, values, parent);
    if (why !== undefined) throw storage.error("failed-precondition", `it cannot be copied: ${why}`);
    const reserves = values["refreservation"] ?? "0";
    const needed = spaceFor(snapshot, reserves === "auto" ? bytes : bytesOf(reserves));
    const available = bytesOf(shownValue(parent, "available"));
    if (needed > available)
      throw storage.error(
        "resource-exhausted",
        `the copy needs ${needed} bytes, and ${available} are available to ${parent?.name ?? names.pool}`,
      );
  }

  /** Throws why the content must not be received: what has received nothing yet will be as encrypted as the datasets above it. */
  async function refusePlain(target: Entry | undefined, { traits }: SourceSnapshot, call: Call): Promise<void> {
    const { encrypted } = traits;
    if (encrypted === false) return;
    const value = shownValue(target ?? (await above(call)), "encryption") ?? "off";
    const why = whyNotPlain(encrypted, value !== "off");
    if (why !== undefined) throw storage.error("failed-precondition", `it cannot be copied: ${why}`);
  }

  /** Makes the record unless it exists, and returns the one that exists then. */
  async function recorded(id: string, record: string, { signal }: Call): Promise<Entry> {
    const name = names.record(id);
    const values = { canmount: "off", ...unreachable, ...markValues(identity), [property.copy]: recordText(record) };
    const dataset = { name, volsize: undefined, values, permissions: undefined };
    const query = { names: [names.pool, name], properties: recordProperties };
    const make = (parents: boolean) => zfs.create(dataset, parents, query, signal);
    const { entries } = await make(false).catch((error: unknown) => {
      if (error instanceof ZfsError && error.failure === "absent") return make(true);
      throw error;
    });
    const entry = entries.get(name);
    if (!entry) throw untrue(`made ${name}`);
    return entry;
  }

  /** Removes a target, and then its record unless that stays; both only if they are this connection's. */
  async function removed(id: string, call: Call, what: "target" | "both" = "both"): Promise<void> {
    const found = await read(id, call);
    const { record } = found;
    if (!record) return;
    if (!recordOf(record)) throw foreign(record.name, "a record");
    const target = targetIn(id, found);
    const query = { names: [names.pool], properties: ["type"] };
    for (const { name } of [target, what === "both" ? record : undefined].filter(each => each !== undefined)) {
      const family = await zfs.family(name, query, call.signal);
      const refused = (text: string) => storage.error("failed-precondition", text);
      if (family.has(name)) await destroyFamily(zfs, name, family, refused, call);
    }
  }

  async function find(id: string, call: Call): Promise<StoredCopy | undefined> {
    if (!isVolumeId(id)) return undefined;
    return recordOf((await read(id, call)).record);
  }

  const drop = async (id: string, call: Call) => (isVolumeId(id) ? removed(id, call) : undefined);

  return {
    content: isZvol ? "blocks" : "files",
    refusal: (method, spec, snapshot, call) =>
      refuse(method, spec, snapshot, call).then(
        () => undefined,
        (error: unknown) => {
          if (error instanceof CsiError) return error;
          throw error;
        },
      ),
    async begin(spec, snapshot, record, call) {
      await zfs.ready?.(call.signal);
      planOf(spec, snapshot);
      const id = names.idOf(spec.name);
      const found = await read(id, call);
      const known = recordOf(found.record);
      if (found.record && !known) throw foreign(found.record.name, "a record");
      if (unmarkedToken(found) === undefined) targetIn(id, found);
      await refusePlain(found.target, snapshot, call);
      if (known) return known;
      // Another controller has finished it since the caller looked for it.
      if (found.volume && isOwn(found.volume) && isFinishedCopy(found.volume, spec.origin))
        throw storage.error("aborted", `volume "${id}" was created meanwhile; retrying`);
      if (found.volume) throw storage.notOwn(`the dataset ${found.volume.name} exists`);
      await refuseSameShare(storage, id, call);
      const entry = await recorded(id, record, call);
      const made = recordOf(entry);
      if (!made) throw foreign(entry.name, "a record");
      return made;
    },
    find,
    async note(id, record, call) {
      if (!(await find(id, call))) throw gone(id);
      await zfs.set(names.record(id), { [property.copy]: recordText(record) }, call.signal);
    },
    async markCancelled(id, call) {
      if (!(await find(id, call))) throw gone(id);
      await zfs.set(names.record(id), { [property.cancelled]: "true" }, call.signal);
    },
    async complete(id, spec, snapshot, stillHeld, call) {
      const { volume } = await read(id, call);
      if (!volume && !(await targetOf(id, call)))
        throw storage.error("aborted", `the copy of "${id.slice(0, 128)}" has received nothing yet`);
      return finishCopy(storage, id, { plan: planOf(spec, snapshot), spec, snapshot, stillHeld }, call);
    },
    async hasContent(id, call) {
      const { target, volume } = await read(id, call);
      // Another process may have renamed the target while both were read.
      return (target ?? volume ?? (await read(id, call)).volume) !== undefined;
    },
    empty: async (id, call) => (isVolumeId(id) ? removed(id, call, "target") : undefined),
    drop,
    forget: drop,
    async copies({ signal }) {
      const entries = await zfs.below(names.parent, ["filesystem"], recordProperties, 1, signal);
      return entries.flatMap(entry => recordOf(entry) ?? []);
    },
    stream: {
      format: isZvol ? "zfs:volume" : "zfs:filesystem",
      machine: streams.machine,
      async state(id, call) {
        const name = names.copyTarget(id);
        if (await streams.isReceiving(name, call.signal)) return { kind: "busy" };
        const found = await read(id, call);
        const begun = unmarkedToken(found);
        // The guid in it proves which copy it is of; with another one, it is left alone like every foreign dataset.
        if (begun !== undefined)
          return { kind: "partial", token: begun, proof: await streams.guidOf(begun, call.signal) };
        const target = targetIn(id, found);
        const token = shownValue(target, "receive_resume_token");
        if (token !== undefined) return { kind: "partial", token, proof: await streams.guidOf(token, call.signal) };
        // What was proved keeps that while it becomes the volume; a pass after an attempt at that has left a snapshot.
        const proof = ownValue(target ?? found.volume, property.proof);
        const proved = proof === undefined ? ({ kind: "nothing" } as const) : ({ kind: "whole", proof } as const);
        if (!target) return proved;
        const below = await zfs.below(name, ["snapshot"], ["guid", "createtxg"], 1, call.signal);
        const txg = (entry: Entry) => Number(shownValue(entry, "createtxg") ?? 0);
        const last = below
          .filter(each => isReceived(each.name))
          .sort((a, b) => txg(a) - txg(b))
          .at(-1);
        return last ? { kind: "whole", proof: shownValue(last, "guid") ?? "" } : proved;
      },
      open(id, { proof }, isLater) {
        const snapshot = `${names.copyTarget(id)}@${receivedName(proof)}`;
        if (isLater) return streams.receiveLater(snapshot, property.copyTarget, id);
        const closed = isZvol ? { volmode: "none" } : { canmount: "noauto", ...unreachable };
        return streams.receive(snapshot, { ...closed, ...markValues(identity), [property.copyTarget]: id });
      },
      /** Also a program that still waits for its first bytes, whose dataset does not exist yet. */
      async stop(id, call) {
        await targetOf(id, call);
        if (await find(id, call)) await streams.stop(names.copyTarget(id), call.signal);
      },
      /** Without a token and a snapshot there is nothing to continue from, and a new stream needs the name. */
      async discard(id, call) {
        const target = await targetOf(id, call);
        if (shownValue(target, "receive_resume_token") !== undefined)
          return streams.abort(names.copyTarget(id), call.signal);
        if (!target || ownValue(target, property.proof) !== undefined) return;
        const query = { names: [names.pool], properties: ["type"] };
        const family = await zfs.family(target.name, query, call.signal);
        const kept = [...family.keys()].some(
          each => each.startsWith(`${target.name}@`) || each.startsWith(`${target.name}/`),
        );
        if (family.has(target.name) && !kept) await zfs.destroy(target.name, {}, call.signal);
      },
    },
  };
}
