import type { Call } from "../../core/call.ts";
import { backendName } from "../../core/name.ts";
import type { Context } from "../driver.ts";
import { TakenNames } from "../taken-names.ts";
import { mebibyte, type SharedFolder } from "./folders.ts";
import type { FolderVolume, SharedFolders } from "./shared-folders.ts";
import type { SnapshotId, SnapshotKind, Taken } from "./unit.ts";

const timeShape = /^GMT([+-])(\d\d):?(\d\d)?-(\d{4})\.(\d\d)\.(\d\d)-(\d\d)\.(\d\d)\.(\d\d)$/;
const markShape = /^csimux (\d+) ([A-Za-z0-9][A-Za-z0-9_-]*)$/;
/** Keeps the description below DSM's 64 characters. */
const longestKey = 44;

type Signalled = Pick<Call, "signal">;
type All = readonly SharedFolder[];

/** The time in DSM's name of a snapshot. */
export function momentOf(time: string): Date {
  const [, sign, hours, minutes = "0", ...parts] = timeShape.exec(time) ?? [];
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0] = parts.map(Number);
  const offset = (Number(hours ?? 0) * 60 + Number(minutes)) * (sign === "-" ? -1 : 1);
  return new Date(Date.UTC(year, month - 1, day, hour, minute - offset, second));
}

/** Snapshots of shared folders, which DSM names by their time and lists for one folder at a time. Those of its schedule are ignored. */
export class FolderSnapshots implements SnapshotKind<FolderVolume, All> {
  readonly taker = "csimux";
  readonly #shared: SharedFolders;
  readonly #taken: TakenNames;

  constructor(shared: SharedFolders) {
    this.#shared = shared;
    this.#taken = new TakenNames(async signal => {
      const units = shared.finished(await shared.read({ signal }));
      const all = (await Promise.all(units.map(each => this.of(each, { signal })))).flat();
      return all.map(({ key = "", unit }) => [key, unit.id]);
    });
  }

  keyOf(name: string): string {
    return backendName(name, longestKey);
  }

  parse(id: string): SnapshotId | undefined {
    const at = id.indexOf("@");
    const name = id.slice(at + 1);
    return at > 0 && timeShape.test(name) ? [id.slice(0, at), name] : undefined;
  }

  unitOf([of]: SnapshotId, all: All): FolderVolume | undefined {
    const unit = this.#shared.find(of, all);
    return unit?.finished ? unit : undefined;
  }

  async of(unit: FolderVolume, { signal }: Signalled): Promise<readonly Taken<FolderVolume>[]> {
    return (await this.#shared.folders.snapshots(unit.folder.name, signal)).flatMap(({ time: name, description }) => {
      const [, size, key] = markShape.exec(description) ?? [];
      if (size === undefined || key === undefined) return [];
      const id = `${unit.id}@${name}`;
      const createdAt = momentOf(name);
      return [{ unit, name, id, key, by: this.taker, bytes: BigInt(size) * mebibyte, createdAt, ready: true }];
    });
  }

  async otherWith(key: string, unit: FolderVolume, units: readonly FolderVolume[], call: Call) {
    const holder = await this.#taken.take(key, unit.id, call.signal);
    const other = holder === unit.id ? undefined : units.find(({ id }) => id === holder);
    if (other && (await this.of(other, call)).some(each => each.key === key)) return other;
    this.#taken.give(key, unit.id);
    return undefined;
  }

  async take({ bytes, folder }: FolderVolume, name: string, _parameters: Context, { signal }: Call): Promise<void> {
    const description = `csimux ${bytes / mebibyte} ${this.keyOf(name)}`;
    await this.#shared.folders.takeSnapshot(folder.name, description, signal);
  }

  async delete({ unit, name, id }: Taken<FolderVolume>, call: Call): Promise<void> {
    await this.#shared.folders.deleteSnapshot(unit.folder.name, name, call.signal);
    // DSM also reports success if it failed.
    if ((await this.of(unit, call)).some(each => each.name === name))
      throw this.#shared.place.error("aborted", `DSM still lists snapshot "${id}"; retrying`);
  }

  async keeper([of, name]: SnapshotId, all: All, call: Call): Promise<string | undefined> {
    const folder = this.#shared.folder(of, all)?.name ?? this.#shared.otherwise(of, all);
    if (folder === undefined) return undefined;
    const taken = await this.#shared.folders.snapshots(folder, call.signal);
    return taken.some(({ time }) => time === name) ? folder : undefined;
  }
}
