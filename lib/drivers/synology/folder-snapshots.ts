import type { Call } from "../../core/call.ts";
import { backendName } from "../../core/name.ts";
import type { Snapshot, SnapshotAbility } from "../driver.ts";
import { unfinished } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { TakenNames } from "../taken-names.ts";
import type { FolderContext, FolderVolume } from "./contexts.ts";
import { DsmError } from "./dsm-error.ts";
import { type FolderSnapshot, mebibyte } from "./folders.ts";

const timeShape = /^GMT([+-])(\d\d):?(\d\d)?-(\d{4})\.(\d\d)\.(\d\d)-(\d\d)\.(\d\d)\.(\d\d)$/;
const markShape = /^csimux (\d+) ([A-Za-z0-9][A-Za-z0-9_-]*)$/;
/** Keeps the description below DSM's 64 characters. */
const longestKey = 44;

type Signalled = Pick<Call, "signal">;

/** A snapshot that CSI took. */
export interface OwnSnapshot {
  readonly volume: FolderVolume;
  readonly time: string;
  /** The key of its name. */
  readonly key: string;
  /** The size of the volume at that time. */
  readonly bytes: bigint;
}

/** The time in DSM's name of a snapshot. */
export function momentOf(time: string): Date {
  const [, sign, hours, minutes = "0", ...parts] = timeShape.exec(time) ?? [];
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0] = parts.map(Number);
  const offset = (Number(hours ?? 0) * 60 + Number(minutes)) * (sign === "-" ? -1 : 1);
  return new Date(Date.UTC(year, month - 1, day, hour, minute - offset, second));
}

const idOf = ({ volume, time }: OwnSnapshot): string => `${volume.id}@${time}`;

/** The parts of a snapshot's id; undefined for any other text. */
function parseFolderSnapshot(id: string): { readonly volume: string; readonly time: string } | undefined {
  const at = id.indexOf("@");
  const time = id.slice(at + 1);
  return at > 0 && timeShape.test(time) ? { volume: id.slice(0, at), time } : undefined;
}

function ownSnapshots(volume: FolderVolume, { time, description }: FolderSnapshot): readonly OwnSnapshot[] {
  const [, size, key] = markShape.exec(description) ?? [];
  return size === undefined || key === undefined ? [] : [{ volume, time, key, bytes: BigInt(size) * mebibyte }];
}

/** The snapshots of a volume taken by CSI; DSM's schedule takes others. */
export async function snapshotsOf(
  context: FolderContext,
  volume: FolderVolume,
  call: Signalled,
): Promise<readonly OwnSnapshot[]> {
  const all = await context.folders.snapshots(volume.folder.name, call.signal);
  return all.flatMap(each => ownSnapshots(volume, each));
}

/** The snapshot of an id, and behind it those of the same name: another controller may have taken one for the same call. */
async function namesakesOf(context: FolderContext, id: string, call: Call): Promise<readonly OwnSnapshot[]> {
  const parts = parseFolderSnapshot(id);
  if (!parts) return [];
  const volume = context.asset(await context.folder(parts.volume, call));
  if (!volume?.finished) return [];
  const all = await snapshotsOf(context, volume, call);
  const found = all.find(({ time }) => time === parts.time);
  return found ? [found, ...all.filter(each => each !== found && each.key === found.key)] : [];
}

/** The snapshot of an id; undefined if it does not exist. */
export async function findSnapshot(context: FolderContext, id: string, call: Call): Promise<OwnSnapshot | undefined> {
  return (await namesakesOf(context, id, call))[0];
}

/**
 * Throws "failed-precondition" for a snapshot that DSM has, although this connection has no such volume: a person may have changed the folder's
 * description, or the prefix in the file.
 */
async function refuseKept(context: FolderContext, id: string, call: Call): Promise<void> {
  const parts = parseFolderSnapshot(id);
  const folder = parts && ((await context.folder(parts.volume, call)) ?? (await context.otherwise(parts.volume, call)));
  if (!folder) return;
  const all = await context.folders.snapshots(folder.name, call.signal);
  if (!all.some(({ time }) => time === parts.time)) return;
  const text = `snapshot "${id}" of the shared folder "${folder.name}" does not belong to this connection and is kept; if it is yours, delete it in DSM`;
  throw context.error("failed-precondition", text);
}

async function take(context: FolderContext, volume: FolderVolume, key: string, call: Call): Promise<OwnSnapshot> {
  const { folders } = context;
  const description = `csimux ${volume.bytes / mebibyte} ${key}`;
  const refusal = await folders.takeSnapshot(volume.folder.name, description, call.signal).catch((error: unknown) => {
    if (error instanceof DsmError) return error;
    throw error;
  });
  // The snapshot may exist now, so a failure here is not final.
  const all = await snapshotsOf(context, volume, call).catch((error: unknown) => {
    throw unfinished(error, context, `create snapshot "${key}"`);
  });
  const made = all.find(each => each.key === key);
  if (made) return made;
  throw refusal ?? context.error("aborted", `DSM does not list snapshot "${key}" yet; retrying`);
}

/** Snapshots of shared folders, which DSM deletes with their folder. It lists those of one folder at a time. */
export function folderSnapshots(context: FolderContext): SnapshotAbility {
  const ofAll = async (volumes: readonly FolderVolume[], call: Signalled) =>
    (await Promise.all(volumes.map(each => snapshotsOf(context, each, call)))).flat();
  const taken = new TakenNames(async signal => {
    const all = await ofAll(await context.volumes({ signal }), { signal });
    return all.map(({ key, volume }) => [key, volume.id]);
  });
  return {
    async create(name, volumeId, _parameters, call) {
      const volumes = await context.volumes(call);
      const volume = volumes.find(({ id }) => id === volumeId);
      if (!volume) throw context.error("not-found", `volume "${volumeId.slice(0, 128)}" does not exist`);
      const key = backendName(name, longestKey);
      const existing = (await snapshotsOf(context, volume, call)).find(each => each.key === key);
      if (existing) return snapshotOf(existing);
      const holder = await taken.take(key, volumeId, call.signal);
      const other = holder === volumeId ? undefined : volumes.find(({ id }) => id === holder);
      if (other && (await snapshotsOf(context, other, call)).some(each => each.key === key))
        throw context.error("already-exists", `snapshot "${name}" exists, of volume "${other.id}"`);
      taken.give(key, volumeId);
      return snapshotOf(await take(context, volume, key, call));
    },
    async delete(id, call) {
      const found = await namesakesOf(context, id, call);
      if (found.length === 0) return refuseKept(context, id, call);
      for (const { volume, time } of found) await context.folders.deleteSnapshot(volume.folder.name, time, call.signal);
      // DSM also reports success if it failed.
      if (await findSnapshot(context, id, call))
        throw context.error("aborted", `DSM still lists snapshot "${id}"; retrying`);
    },
    async get(id, call) {
      const found = await findSnapshot(context, id, call);
      if (found) return snapshotOf(found);
      throw context.error("not-found", `snapshot "${id.slice(0, 128)}" does not exist`);
    },
    async list({ volumeId }, page, call) {
      const volumes = (await context.volumes(call)).filter(({ id }) => volumeId === undefined || id === volumeId);
      const byId = new Map((await ofAll(volumes, call)).map(each => [idOf(each), snapshotOf(each)]));
      const isId = (text: string) => parseFolderSnapshot(text) !== undefined;
      return pageOf([...byId.keys()], isId, page, async id => byId.get(id));
    },
  };
}

const snapshotOf = (taken: OwnSnapshot): Snapshot => ({
  id: idOf(taken),
  volumeId: taken.volume.id,
  bytes: taken.bytes,
  createdAt: momentOf(taken.time),
  ready: true,
});
