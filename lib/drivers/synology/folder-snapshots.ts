import type { Call } from "../../core/call.ts";
import { backendName } from "../../core/name.ts";
import { TakenNames } from "../taken-names.ts";
import { mebibyte, type SharedFolder } from "./folders.ts";
import type { FolderVolume, SharedFolders } from "./shared-folders.ts";
import type { SnapshotKind, TakenSnapshot } from "./unit.ts";

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

/** Snapshots of shared folders, which DSM names by their time and lists for one folder at a time. Snapshots of its schedule are ignored. */
export function folderSnapshots(shared: SharedFolders): SnapshotKind<FolderVolume, All> {
  const taker = "csimux";
  const of = async (unit: FolderVolume, { signal }: Signalled): Promise<readonly TakenSnapshot<FolderVolume>[]> =>
    (await shared.folders.snapshots(unit.folder.name, signal)).flatMap(({ time: name, description }) => {
      const [, size, key] = markShape.exec(description) ?? [];
      if (size === undefined || key === undefined) return [];
      const bytes = BigInt(size) * mebibyte;
      return [{ unit, name, id: `${unit.id}@${name}`, key, by: taker, bytes, createdAt: momentOf(name), ready: true }];
    });
  const taken = new TakenNames(async signal => {
    const units = shared.finished(await shared.read({ signal }));
    const all = (await Promise.all(units.map(each => of(each, { signal })))).flat();
    return all.map(({ key = "", unit }) => [key, unit.id]);
  });
  const keyOf = (name: string) => backendName(name, longestKey);

  return {
    ...{ taker, of, keyOf },
    parse(id) {
      const at = id.indexOf("@");
      const name = id.slice(at + 1);
      return at > 0 && timeShape.test(name) ? [id.slice(0, at), name] : undefined;
    },
    unitOf: ([id], all) => [shared.find(id, all)].find(unit => unit?.finished),
    async otherWith(key, unit, units, call) {
      const holder = await taken.take(key, unit.id, call.signal);
      const other = holder === unit.id ? undefined : units.find(({ id }) => id === holder);
      if (other && (await of(other, call)).some(each => each.key === key)) return other;
      taken.give(key, unit.id);
      return undefined;
    },
    async take({ bytes, folder }, name, _parameters, { signal }) {
      await shared.folders.takeSnapshot(folder.name, `csimux ${bytes / mebibyte} ${keyOf(name)}`, signal);
    },
    async delete({ unit, name, id }, call) {
      await shared.folders.deleteSnapshot(unit.folder.name, name, call.signal);
      // DSM also reports success if it failed.
      if ((await of(unit, call)).some(each => each.name === name))
        throw shared.place.error("aborted", `DSM still lists snapshot "${id}"; retrying`);
    },
    async keeper([id, name], all, call) {
      const folder = shared.folder(id, all)?.name ?? shared.otherwise(id, all);
      if (folder === undefined) return undefined;
      return (await shared.folders.snapshots(folder, call.signal)).some(({ time }) => time === name)
        ? folder
        : undefined;
    },
  };
}
