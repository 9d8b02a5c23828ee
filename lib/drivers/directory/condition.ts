import { errnoOf } from "../../core/errors.ts";
import type { Finding, VolumeFindings } from "../../health/finding.ts";
import { unless } from "../../io/files.ts";
import { isVolumeId, type TreeKind } from "./layout.ts";
import { type OperationContext, present } from "./operation-context.ts";
import { snapshotRecords } from "./records.ts";
import { partsOfKey } from "./snapshot-ids.ts";

/** The result of checking a base folder. */
export interface BaseInspection {
  readonly storage: readonly Finding[];
  /** The names in the folder of volumes, unchecked. */
  readonly volumes: readonly string[];
  readonly findings: VolumeFindings;
}

/** Checks a base folder by its listings alone: a few calls, however many volumes it has. Rejects as `present` and Files do. */
export async function inspectBase(context: OperationContext): Promise<BaseInspection> {
  await present(context);
  const { files, layout } = context;
  const namesOf = async (folder: string) => (await unless(files.names(folder), "ENOENT")) ?? [];
  const storage = await storageFindings(context);
  // Records first, so that nothing created meanwhile counts as missing.
  const records = await namesOf(layout.own);
  const work = await namesOf(layout.work);
  const [volumes, snapshots] = [await namesOf(layout.root("v")), await namesOf(layout.root("s"))];
  const isBegun = (kind: TreeKind, tree: string) =>
    work.some(
      name =>
        name.startsWith(layout.workPrefix(kind, tree)) ||
        (kind === "v" && (name === layout.copyTarget(tree) || name.startsWith(layout.finishingPrefix(tree)))),
    );
  const findings = new Map<string, readonly Finding[]>();
  const there = new Set(volumes);
  for (const id of keysOf(records, "v")) {
    if (there.has(id) || isBegun("v", id) || (await files.entry(layout.tree("v", id)))) continue;
    const aside = work.find(name => name.startsWith(layout.takenPrefix("v", id)));
    if (aside === undefined) findings.set(id, [volumeMissing(`v/${id}`)]);
    else if (await isOld(context, `${layout.work}/${aside}`)) findings.set(id, [volumeAside(`v/${id}`, aside)]);
  }
  const kept = new Set(snapshots);
  for (const key of keysOf(records, "s")) {
    const { tree } = partsOfKey(key);
    if (kept.has(tree) || isBegun("s", tree) || work.some(name => name.startsWith(layout.takenPrefix("s", tree))))
      continue;
    const record = await snapshotRecords(context).read(key);
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

/** The keys of the records of one kind. */
function keysOf(names: readonly string[], kind: TreeKind): readonly string[] {
  const ending = ".json";
  const ours = names.filter(name => name.startsWith(`${kind}.`) && name.endsWith(ending));
  return ours.map(name => name.slice(kind.length + 1, -ending.length)).filter(isVolumeId);
}

const volumeMissing = (folder: string): Finding => ({
  reason: "VolumeMissing",
  message: `the folder ${folder} below the base folder has disappeared; csimux did not delete the volume`,
});

/** A controller decides at once about what it has moved aside, in milliseconds. */
const decidedMs = 60_000;

/** Whether a folder was moved so long ago that the csimux that did it must have ended. */
async function isOld({ files }: OperationContext, folder: string): Promise<boolean> {
  const facts = await unless(files.facts(folder), "ENOENT");
  return facts !== undefined && Date.now() - facts.changedAt.getTime() > decidedMs;
}

const volumeAside = (folder: string, aside: string): Finding => ({
  reason: "VolumeMissing",
  message: `a csimux that was about to remove the folder ${folder} has ended and left it, whole, as .csimux/work/${aside}; move it back, or delete the volume`,
});

const snapshotLost = (name: string, folder: string): Finding => ({
  reason: "SnapshotLost",
  message: `snapshot "${name.slice(0, 128)}": the folder ${folder} below the base folder has disappeared; csimux did not delete the snapshot`,
});
