import { errnoOf } from "../../core/errors.ts";
import type { Finding, VolumeFindings } from "../../health/finding.ts";
import { unless } from "./files.ts";
import { isVolumeId, type TreeKind } from "./layout.ts";
import { type OperationContext, present } from "./operation-context.ts";
import { snapshotRecords } from "./records.ts";
import { placeOfKey } from "./snapshot-ids.ts";

/** The names in the folders of a base folder at one moment, and what is wrong with it. */
export interface BaseInspection {
  readonly storage: readonly Finding[];
  /** Names in the folder of volumes, unchecked. */
  readonly volumes: readonly string[];
  readonly findings: VolumeFindings;
}

/** Looks at a base folder by its listings alone: a few steps however many volumes there are. Rejects as `present` and Files do. */
export async function lookAtBase(space: OperationContext): Promise<BaseInspection> {
  await present(space);
  const { files, layout } = space;
  const namesOf = async (folder: string) => (await unless(files.names(folder), "ENOENT")) ?? [];
  const storage = await storageFindings(space);
  // Records first: what is made meanwhile is not missed then.
  const records = await namesOf(layout.own);
  const work = await namesOf(layout.work);
  const [volumes, snapshots] = [await namesOf(layout.root("v")), await namesOf(layout.root("s"))];
  const isBegun = (sort: TreeKind, tree: string) => work.some(name => name.startsWith(layout.workPrefix(sort, tree)));
  const findings = new Map<string, readonly Finding[]>();
  const there = new Set(volumes);
  for (const id of keysOf(records, "v")) {
    if (there.has(id) || isBegun("v", id) || (await files.entry(layout.tree("v", id)))) continue;
    findings.set(id, [volumeMissing(`v/${id}`)]);
  }
  const kept = new Set(snapshots);
  for (const key of keysOf(records, "s")) {
    const { tree } = placeOfKey(key);
    if (kept.has(tree) || isBegun("s", tree)) continue;
    const record = await snapshotRecords(space).read(key);
    if (record && there.has(record.volumeId)) findings.set(record.volumeId, [snapshotLost(record.name, `s/${tree}`)]);
  }
  return { storage, volumes, findings };
}

async function storageFindings({ files, layout: { base } }: OperationContext): Promise<readonly Finding[]> {
  try {
    await files.usable(base);
  } catch (error) {
    if (errnoOf(error) !== "EROFS") throw error;
    return [{ reason: "StorageReadOnly", message: "the file system of the base folder is read-only" }];
  }
  const { availableBytes } = await files.statfs(base);
  return availableBytes > 0
    ? []
    : [{ reason: "StorageFull", message: "the file system of the base folder has no space left" }];
}

/** The keys of the records of one sort. */
function keysOf(names: readonly string[], sort: TreeKind): readonly string[] {
  const ending = ".json";
  const ours = names.filter(name => name.startsWith(`${sort}.`) && name.endsWith(ending));
  return ours.map(name => name.slice(sort.length + 1, -ending.length)).filter(isVolumeId);
}

const volumeMissing = (folder: string): Finding => ({
  reason: "VolumeMissing",
  message: `the folder ${folder} below the base folder has disappeared; csimux did not delete the volume`,
});

const snapshotLost = (name: string, folder: string): Finding => ({
  reason: "SnapshotLost",
  message: `snapshot "${name.slice(0, 128)}": the folder ${folder} below the base folder has disappeared; csimux did not delete the snapshot`,
});
