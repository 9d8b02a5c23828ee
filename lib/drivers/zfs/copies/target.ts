import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { type CopyMethod, type CopySpec, type SourceSnapshot, whyNotPlain } from "../../copying.ts";
import type { CopyTargetStore } from "../../store.ts";
import { type CreationPlan, creationPlan } from "../creation.ts";
import { isVolumeId } from "../names.ts";
import { bytesOf, isFinishedCopy, markValues, property, shownValue } from "../properties.ts";
import { aloneWithShare, refuseSameShare } from "../shares/properties.ts";
import { destroyFamily } from "../sources.ts";
import type { CopyAccess } from "../storage.ts";
import { receivingProperties, spaceFor, whyNotReceived } from "../streams.ts";
import { blockBytes, blockSizeOf } from "../values.ts";
import type { ZfsVolume } from "../volume.ts";
import { type Entry, untrue, ZfsError } from "../zfs.ts";
import { CopyDatasets, recordProperties, recordText } from "./datasets.ts";
import { finishCopy } from "./finish.ts";
import { receivingTargets, unreachable } from "./stream.ts";

/**
 * Targets of copies: a dataset with the record, which holds no data, and next to it the dataset that receives the content. Neither is ever a
 * volume; the second becomes one by its last rename.
 */
export function datasetCopyTarget(access: CopyAccess): CopyTargetStore<ZfsVolume> {
  const { storage, made = {} } = access;
  const { zfs, names, settings, identity } = storage;
  const isZvol = settings.volumes.type === "volume";
  const datasets = new CopyDatasets(storage);

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
      throw storage.error("invalid-argument", `volumes of ZFS are made of streams, and not by the method "${method}"`);
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
    const found = await datasets.read(id, call);
    const { record } = found;
    if (!record) return;
    if (!datasets.recordOf(record)) throw datasets.foreign(record.name, "a record");
    const target = datasets.targetIn(id, found);
    const query = { names: [names.pool], properties: ["type"] };
    for (const { name } of [target, what === "both" ? record : undefined].filter(each => each !== undefined)) {
      const family = await zfs.family(name, query, call.signal);
      const refused = (text: string) => storage.error("failed-precondition", text);
      if (family.has(name)) await destroyFamily(zfs, name, family, refused, call);
    }
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
      const found = await datasets.read(id, call);
      const known = datasets.recordOf(found.record);
      if (found.record && !known) throw datasets.foreign(found.record.name, "a record");
      if (datasets.unmarkedToken(found) === undefined) datasets.targetIn(id, found);
      await refusePlain(found.target, snapshot, call);
      if (known) return known;
      // Another controller has finished it since the caller looked for it.
      if (found.volume && datasets.isOwn(found.volume) && isFinishedCopy(found.volume, spec.origin))
        throw storage.error("aborted", `volume "${id}" was created meanwhile; retrying`);
      if (found.volume) throw storage.notOwn(`the dataset ${found.volume.name} exists`);
      await refuseSameShare(storage, id, call);
      const entry = await recorded(id, record, call);
      const made = datasets.recordOf(entry);
      if (!made) throw datasets.foreign(entry.name, "a record");
      return made;
    },
    find: (id, call) => datasets.find(id, call),
    async note(id, record, call) {
      if (!(await datasets.find(id, call))) throw datasets.gone(id);
      await zfs.set(names.record(id), { [property.copy]: recordText(record) }, call.signal);
    },
    async markCancelled(id, call) {
      if (!(await datasets.find(id, call))) throw datasets.gone(id);
      await zfs.set(names.record(id), { [property.cancelled]: "true" }, call.signal);
    },
    async complete(id, spec, snapshot, stillHeld, call) {
      const { volume } = await datasets.read(id, call);
      if (!volume && !(await datasets.targetOf(id, call)))
        throw storage.error("aborted", `the copy of "${id.slice(0, 128)}" has received nothing yet`);
      return aloneWithShare(storage, id, async () => {
        // While the content was copied, another volume may have got the name of the share.
        if (!volume) await refuseSameShare(storage, id, call);
        return finishCopy(storage, id, { plan: planOf(spec, snapshot), spec, snapshot, stillHeld }, call);
      });
    },
    async hasContent(id, call) {
      const { target, volume } = await datasets.read(id, call);
      // Another process may have renamed the target while both were read.
      return (target ?? volume ?? (await datasets.read(id, call)).volume) !== undefined;
    },
    empty: async (id, call) => (isVolumeId(id) ? removed(id, call, "target") : undefined),
    drop,
    forget: drop,
    async copies({ signal }) {
      const entries = await zfs.below(names.parent, ["filesystem"], recordProperties, 1, signal);
      return entries.flatMap(entry => datasets.recordOf(entry) ?? []);
    },
    stream: receivingTargets(access, datasets),
  };
}
