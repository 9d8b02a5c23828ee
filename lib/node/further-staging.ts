import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { ensureFile, ensureFolder } from "./mount/files.ts";
import type { MountTable } from "./mount/mount-table.ts";
import { mountMismatch } from "./mount/mounts.ts";
import type { NodeParts } from "./parts.ts";
import { nomadFolderOf } from "./state/mount-points.ts";
import { type FurtherStaging, isSameStaging, type StageRecord, stagedAt } from "./state/stage-records.ts";

// A volume has one staging path on a node (CSI NodeStageVolume), but Nomad stages it once for each kind of use: for readers
// and for writers, by attachment and access mode. The further paths are bind mounts of the first; the volume stays attached
// until the last of them is unstaged.

/** Whether a volume that is staged at one path may be staged at the other as well: both are Nomad's, in one plugin's folder. */
export function mayStageAgain(staged: StageRecord, record: StageRecord, table: MountTable): boolean {
  const folder = nomadFolderOf(staged.stagingPath, table);
  if (folder === undefined || folder !== nomadFolderOf(record.stagingPath, table)) return false;
  const { stagingPath, mode, flags } = staged;
  return isSameStaging(staged, { ...record, stagingPath, mode, flags });
}

/**
 * Stages a volume at a further path. Writes the record first: an entry without a mount has no effect. Throws
 * "already-exists" if the path shows something else, and "failed-precondition" for a writable use of a volume whose file
 * system is mounted read-only, as that of a disk is for a reader.
 */
export async function stageAgain(
  { records, mounts }: Pick<NodeParts, "records" | "mounts">,
  staged: StageRecord,
  { stagingPath: path, kind, mode, flags }: StageRecord,
  table: MountTable,
  call: Call,
): Promise<void> {
  const [source, at] = [stagedAt(staged), stagedAt({ kind, stagingPath: path })];
  const top = table.top(at);
  const wrong = top && mountMismatch(top, table.identity(source), flags);
  if (wrong) {
    const text = `${at} is mounted, but not as volume "${staged.volumeId}" requires: ${wrong}; unmount it first`;
    throw new CsiError("already-exists", text);
  }
  await records.save({ ...staged, further: [...without(staged, path), { path, mode, flags }] });
  if (top) return;
  await ensureFolder(path, call.signal);
  if (kind === "block") await ensureFile(at, call.signal);
  const number = kind === "block" && staged.attached?.kind === "device" ? { number: staged.attached.number } : {};
  await mounts.bind({ source, at, flags, sameVolume: true, ...number }, table, call.signal);
}

/** The record without the further staging at this path. */
export const withoutFurther = (record: StageRecord, path: string): StageRecord => ({
  ...record,
  further: without(record, path),
});

/**
 * The record in which a further staging that is mounted takes the place of the first, which becomes a further one; undefined if
 * there is none: then the volume can be detached.
 */
export function withNextFirst(record: StageRecord, table: MountTable): StageRecord | undefined {
  const { kind, stagingPath, mode, flags } = record;
  const next = record.further?.find(({ path }) => table.layers(stagedAt({ kind, stagingPath: path })) > 0);
  if (!next) return undefined;
  return {
    ...record,
    stagingPath: next.path,
    mode: next.mode,
    flags: next.flags,
    further: [...without(record, next.path), { path: stagingPath, mode, flags }],
    published: record.published.map(entry => ({ ...entry, staging: entry.staging ?? stagingPath })),
  };
}

const without = (record: StageRecord, path: string): readonly FurtherStaging[] =>
  (record.further ?? []).filter(staging => staging.path !== path);

/**
 * Throws "failed-precondition" while a mount in Nomad's folder of this plugin shows the volume although no record names it:
 * a record that was lost and made again does not know the older targets. Two volumes can be the same folder or share, and
 * what the record of the other one names is the other one's.
 */
export async function refuseUnrecorded(
  { records }: Pick<NodeParts, "records">,
  { volumeId, shows }: StageRecord,
  at: string,
  table: MountTable,
): Promise<void> {
  const folder = nomadFolderOf(at, table);
  if (folder === undefined || shows === undefined) return;
  const isShown = (point: string) => point !== at && point.startsWith(`${folder}/`) && table.shows(point, shows);
  for (const used of table.points().filter(isShown)) {
    if (await records.isNamedByOther(used, volumeId)) continue;
    throw new CsiError(
      "failed-precondition",
      `volume "${volumeId}" is still mounted at ${used}; unpublish it there first`,
    );
  }
}
