import type { StreamTarget } from "../../copying.ts";
import { isReceived, receivedName } from "../names.ts";
import { markValues, ownValue, property, shownValue } from "../properties.ts";
import type { CopyAccess } from "../storage.ts";
import type { Entry } from "../zfs.ts";
import type { CopyDatasets } from "./datasets.ts";

/** Nothing mounts or shares a record, or a target: `zfs mount -a` passes both over. */
export const unreachable = { mountpoint: "none", sharenfs: "off", sharesmb: "off" } as const;

/** Targets of copies as receivers of streams (zfs-receive(8)). */
export function receivingTargets({ storage, streams }: CopyAccess, datasets: CopyDatasets): StreamTarget {
  const { zfs, names, settings, identity } = storage;
  const isZvol = settings.volumes.type === "volume";
  return {
    format: isZvol ? "zfs:volume" : "zfs:filesystem",
    machine: streams.machine,
    async state(id, call) {
      const name = names.copyTarget(id);
      if (await streams.isReceiving(name, call.signal)) return { kind: "busy" };
      const found = await datasets.read(id, call);
      const begun = datasets.unmarkedToken(found);
      // The guid in it proves which copy it is of; with another one, it is left alone like every foreign dataset.
      if (begun !== undefined)
        return { kind: "partial", token: begun, proof: await streams.guidOf(begun, call.signal) };
      const target = datasets.targetIn(id, found);
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
      await datasets.targetOf(id, call);
      if (await datasets.find(id, call)) await streams.stop(names.copyTarget(id), call.signal);
    },
    /** Without a token and a snapshot there is nothing to continue from, and a new stream needs the name. */
    async discard(id, call) {
      const target = await datasets.targetOf(id, call);
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
  };
}
