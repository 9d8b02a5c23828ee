import type { Call } from "../../core/call.ts";
import { backendName } from "../../core/name.ts";
import type { ConnectionIdentity } from "../module.ts";
import type { Luns, LunsAndTargets, LunVolume } from "./luns.ts";
import type { LunSnapshot } from "./san.ts";
import { template } from "./templates.ts";
import { ownersOf, type SnapshotKind, type TakenSnapshot } from "./unit.ts";

/** democratic-csi's form: the UUID of the LUN (its number in old ids), then the UUID of the snapshot. */
const idShape = /^\/lun\/([0-9]{1,9}|[0-9A-Fa-f-]{36})\/([0-9A-Fa-f-]{36})$/;

/** Snapshots of LUNs. Their description is their name, as in democratic-csi. */
export function lunSnapshots(luns: Luns, identity: ConnectionIdentity): SnapshotKind<LunVolume, LunsAndTargets> {
  const taker = `csimux:${ownersOf(identity)[0]}`;
  /** An id has the LUN's number if the UUID would make it too long. */
  function taken(
    unit: LunVolume,
    { uuid, description, takenBy: by, bytes, ...rest }: LunSnapshot,
  ): TakenSnapshot<LunVolume> {
    const { lun } = unit;
    const id = `/lun/${lun.uuid}/${uuid}`;
    const isCsi = by.startsWith("csimux:") || by === "democratic-csi";
    return {
      ...{ unit, name: uuid, by, createdAt: rest.createdAt, ready: rest.ready },
      id: id.length <= identity.maxIdBytes ? id : `/lun/${lun.number}/${uuid}`,
      key: isCsi ? description : undefined,
      bytes: bytes > 0n ? bytes : lun.bytes,
    };
  }

  const of = async (unit: LunVolume, { signal }: Pick<Call, "signal">, again = false) => {
    const { uuid, snapshots } = unit.lun;
    const all = (again ? undefined : snapshots) ?? (await luns.san.snapshots(uuid, signal));
    return all.map(each => taken(unit, each));
  };

  return {
    ...{ taker, of, keyOf: name => name },
    parse(id) {
      const [, lun, name] = idShape.exec(id) ?? [];
      return lun !== undefined && name !== undefined ? [lun, name] : undefined;
    },
    unitOf: ([named], all) => luns.finished(all).find(({ lun }) => lun.uuid === named || lun.number === named),
    /** One listing contains all snapshots of all LUNs, or DSM is asked for those of each. */
    async otherWith(key, { lun }, units, call) {
      const others = units.filter(each => each.lun.uuid !== lun.uuid);
      const all = (await Promise.all(others.map(each => of(each, call)))).flat();
      return all.find(each => each.key === key)?.unit;
    },
    async take({ lun }, name, parameters, call) {
      const fields = template(luns.templates, "lunSnapshotTemplate", parameters, call);
      const own = { snapshot_name: backendName(name, 64), description: name, taken_by: taker };
      await luns.san.takeSnapshot(lun.uuid, { ...fields, ...own }, call.signal);
    },
    delete: ({ name }, call) => luns.san.deleteSnapshot(name, call.signal),
    async keeper([named, name], all, call) {
      const lun = all.luns.find(each => each.uuid === named || each.number === named);
      const snapshots = lun ? await luns.san.snapshots(lun.uuid, call.signal) : [];
      return snapshots.some(({ uuid }) => uuid === name) ? lun?.name : undefined;
    },
  };
}
