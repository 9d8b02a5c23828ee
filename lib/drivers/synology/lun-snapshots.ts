import type { Call } from "../../core/call.ts";
import { backendName } from "../../core/name.ts";
import type { Context } from "../driver.ts";
import type { Luns, LunsAndTargets, LunVolume } from "./luns.ts";
import type { LunSnapshot } from "./san.ts";
import { template } from "./templates.ts";
import type { SnapshotId, SnapshotKind, Taken } from "./unit.ts";

/** democratic-csi's form: the UUID of the LUN (its number in old ids), then the UUID of the snapshot. */
const idShape = /^\/lun\/([0-9]{1,9}|[0-9A-Fa-f-]{36})\/([0-9A-Fa-f-]{36})$/;

/** Snapshots of LUNs. Their description is their name, as in democratic-csi. */
export class LunSnapshots implements SnapshotKind<LunVolume, LunsAndTargets> {
  readonly taker: string;
  readonly #luns: Luns;
  readonly #maxIdBytes: number;

  constructor(luns: Luns, taker: string, maxIdBytes: number) {
    this.taker = taker;
    this.#luns = luns;
    this.#maxIdBytes = maxIdBytes;
  }

  keyOf(name: string): string {
    return name;
  }

  parse(id: string): SnapshotId | undefined {
    const [, of, name] = idShape.exec(id) ?? [];
    return of !== undefined && name !== undefined ? [of, name] : undefined;
  }

  unitOf([of]: SnapshotId, all: LunsAndTargets): LunVolume | undefined {
    return this.#luns.finished(all).find(({ lun }) => lun.uuid === of || lun.number === of);
  }

  async of(unit: LunVolume, { signal }: Pick<Call, "signal">, again = false): Promise<readonly Taken<LunVolume>[]> {
    const { uuid, snapshots } = unit.lun;
    const all = (again ? undefined : snapshots) ?? (await this.#luns.san.snapshots(uuid, signal));
    return all.map(each => this.#taken(unit, each));
  }

  /** One listing contains all snapshots of all LUNs, or DSM is asked for those of each. */
  async otherWith(key: string, { lun }: LunVolume, units: readonly LunVolume[], call: Call) {
    const others = units.filter(each => each.lun.uuid !== lun.uuid);
    const all = (await Promise.all(others.map(each => this.of(each, call)))).flat();
    return all.find(each => each.key === key)?.unit;
  }

  async take({ lun }: LunVolume, name: string, parameters: Context, call: Call): Promise<void> {
    const fields = template(this.#luns.templates, "lunSnapshotTemplate", parameters, call);
    const own = { snapshot_name: backendName(name, 64), description: name, taken_by: this.taker };
    await this.#luns.san.takeSnapshot(lun.uuid, { ...fields, ...own }, call.signal);
  }

  delete({ name }: Taken<LunVolume>, call: Call): Promise<void> {
    return this.#luns.san.deleteSnapshot(name, call.signal);
  }

  async keeper([of, name]: SnapshotId, { luns }: LunsAndTargets, call: Call): Promise<string | undefined> {
    const lun = luns.find(each => each.uuid === of || each.number === of);
    const all = lun ? await this.#luns.san.snapshots(lun.uuid, call.signal) : [];
    return all.some(({ uuid }) => uuid === name) ? lun?.name : undefined;
  }

  /** An id has the LUN's number if the UUID would make it too long. */
  #taken(unit: LunVolume, { uuid, description, takenBy: by, bytes, createdAt, ready }: LunSnapshot): Taken<LunVolume> {
    const { lun } = unit;
    const id = `/lun/${lun.uuid}/${uuid}`;
    const isCsi = by.startsWith("csimux:") || by === "democratic-csi";
    return {
      ...{ unit, name: uuid, by, createdAt, ready },
      id: id.length <= this.#maxIdBytes ? id : `/lun/${lun.number}/${uuid}`,
      key: isCsi ? description : undefined,
      bytes: bytes > 0n ? bytes : lun.bytes,
    };
  }
}
