import type { Call } from "../../core/call.ts";
import { backendName } from "../../core/name.ts";
import type { Context, Page, PageRequest, Snapshot, SnapshotAbility } from "../driver.ts";
import { unfinished } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { DsmError } from "./dsm-error.ts";
import type { FolderContext, FolderVolume } from "./folder-context.ts";
import { type FolderSnapshot, mebibyte } from "./folders.ts";

const timeShape = /^GMT([+-])(\d\d):?(\d\d)?-(\d{4})\.(\d\d)\.(\d\d)-(\d\d)\.(\d\d)\.(\d\d)$/;
const markShape = /^csimux (\d+) ([A-Za-z0-9][A-Za-z0-9_-]*)$/;
/** So that the description stays below DSM's 64 characters. */
const longestKey = 44;

/** A snapshot that CSI took. */
export interface OwnSnapshot {
  readonly volume: FolderVolume;
  readonly time: string;
  /** What its name became. */
  readonly key: string;
  /** What the volume had then. */
  readonly bytes: bigint;
}

/** The moment that DSM's name of a snapshot means. */
export function momentOf(time: string): Date {
  const [, sign, hours, minutes = "0", ...parts] = timeShape.exec(time) ?? [];
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0] = parts.map(Number);
  const offset = (Number(hours ?? 0) * 60 + Number(minutes)) * (sign === "-" ? -1 : 1);
  return new Date(Date.UTC(year, month - 1, day, hour, minute - offset, second));
}

const idOf = ({ volume, time }: OwnSnapshot): string => `${volume.id}@${time}`;

/** The parts of a snapshot's id; undefined for a text that is none. */
export function parseFolderSnapshot(id: string): { readonly volume: string; readonly time: string } | undefined {
  const at = id.indexOf("@");
  const time = id.slice(at + 1);
  return at > 0 && timeShape.test(time) ? { volume: id.slice(0, at), time } : undefined;
}

function takenOf(volume: FolderVolume, { time, description }: FolderSnapshot): readonly OwnSnapshot[] {
  const [, size, key] = markShape.exec(description) ?? [];
  return size === undefined || key === undefined ? [] : [{ volume, time, key, bytes: BigInt(size) * mebibyte }];
}

/** The snapshots of a volume that CSI took; DSM's schedule takes others. */
export async function snapshotsOf(
  space: FolderContext,
  volume: FolderVolume,
  call: Call,
): Promise<readonly OwnSnapshot[]> {
  const all = await space.folders.snapshots(volume.folder.name, call.signal);
  return all.flatMap(each => takenOf(volume, each));
}

/** Snapshots of shared folders, which are parts of them. */
export class FolderSnapshots implements SnapshotAbility {
  readonly #space: FolderContext;

  constructor(space: FolderContext) {
    this.#space = space;
  }

  /** As SnapshotAbility.create. DSM tells snapshots of one folder at a time, so a name is looked for in each. */
  async create(name: string, volumeId: string, _parameters: Context, call: Call): Promise<Snapshot> {
    const volumes = await this.#space.volumes(call);
    const volume = volumes.find(({ id }) => id === volumeId);
    if (!volume) throw this.#space.error("not-found", `volume "${volumeId.slice(0, 128)}" does not exist`);
    const key = backendName(name, longestKey);
    const all = await Promise.all(volumes.map(each => snapshotsOf(this.#space, each, call)));
    const standing = all.flat().find(each => each.key === key);
    if (standing && standing.volume.id !== volumeId)
      throw this.#space.error("already-exists", `snapshot "${name}" exists, of volume "${standing.volume.id}"`);
    return told(standing ?? (await this.#take(volume, key, call)));
  }

  /** As SnapshotAbility.delete. */
  async delete(id: string, call: Call): Promise<void> {
    const found = await this.find(id, call);
    if (!found) return;
    // What another controller took for the same call goes with it: one name means one snapshot.
    const twins = (await snapshotsOf(this.#space, found.volume, call)).filter(({ key }) => key === found.key);
    for (const { volume, time } of twins)
      await this.#space.folders.deleteSnapshot(volume.folder.name, time, call.signal);
    // DSM answers that it succeeded also where it did not.
    if (await this.find(id, call))
      throw this.#space.error("aborted", `DSM still has snapshot "${id}"; repeat the call`);
  }

  /** As SnapshotAbility.get. */
  async get(id: string, call: Call): Promise<Snapshot> {
    const found = await this.find(id, call);
    if (found) return told(found);
    throw this.#space.error("not-found", `snapshot "${id.slice(0, 128)}" does not exist`);
  }

  /** As SnapshotAbility.list. */
  async list(
    filter: { readonly volumeId: string | undefined },
    page: PageRequest,
    call: Call,
  ): Promise<Page<Snapshot>> {
    const { volumeId } = filter;
    const volumes = (await this.#space.volumes(call)).filter(({ id }) => volumeId === undefined || id === volumeId);
    const all = await Promise.all(volumes.map(each => snapshotsOf(this.#space, each, call)));
    const byId = new Map(all.flat().map(each => [idOf(each), each]));
    return pageOf(
      [...byId.keys()],
      text => parseFolderSnapshot(text) !== undefined,
      page,
      async id => {
        const found = byId.get(id);
        return found && told(found);
      },
    );
  }

  /** The snapshot of an id; undefined when it does not exist. */
  async find(id: string, call: Call): Promise<OwnSnapshot | undefined> {
    const parts = parseFolderSnapshot(id);
    if (!parts) return undefined;
    const volume = this.#space.asset(await this.#space.folder(parts.volume, call));
    if (!volume?.finished) return undefined;
    return (await snapshotsOf(this.#space, volume, call)).find(({ time }) => time === parts.time);
  }

  async #take(volume: FolderVolume, key: string, call: Call): Promise<OwnSnapshot> {
    const { folders } = this.#space;
    const description = `csimux ${volume.bytes / mebibyte} ${key}`;
    const refusal = await folders.takeSnapshot(volume.folder.name, description, call.signal).catch((error: unknown) => {
      if (error instanceof DsmError) return error;
      throw error;
    });
    // It may be there now, so what fails here is not final.
    const all = await snapshotsOf(this.#space, volume, call).catch((error: unknown) => {
      throw unfinished(error, this.#space, `create snapshot "${key}"`);
    });
    const made = all.find(each => each.key === key);
    if (made) return made;
    throw refusal ?? this.#space.error("aborted", `DSM does not show snapshot "${key}" yet; repeat the call`);
  }
}

const told = (taken: OwnSnapshot): Snapshot => ({
  id: idOf(taken),
  volumeId: taken.volume.id,
  bytes: taken.bytes,
  createdAt: momentOf(taken.time),
  ready: true,
});
