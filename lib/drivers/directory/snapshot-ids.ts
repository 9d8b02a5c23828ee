import { backendName } from "../../core/name.ts";
import type { BackupMethod } from "./backups/tool.ts";
import { isVolumeId } from "./layout.ts";

/** The parts of the id of a snapshot. */
export interface SnapshotId {
  /** The folder below `s`. */
  readonly tree: string;
  /** The key of its record; undefined for a snapshot of democratic-csi. */
  readonly key: string | undefined;
}

/**
 * Folders of democratic-csi are `<volume id>-<snapshot name>`: they begin with a letter or digit and contain a dash. Folders
 * of csimux begin with "_", so that no snapshot name can lead to an old folder.
 */
const oldShape = /^[A-Za-z0-9][A-Za-z0-9_:.+-]{0,254}$/;
const keyPrefix = "f/";

/** Two dots within a name are harmless and allowed by democratic-csi; refusing them would make such a snapshot undeletable. */
const isOldTree = (name: string) => oldShape.test(name) && name.includes("-");

/** The record key for a snapshot name, with room for "f/" in an id of at most `maxIdBytes`. */
export const snapshotKey = (name: string, maxIdBytes: number): string =>
  backendName(name, maxIdBytes - keyPrefix.length);

export const partsOfKey = (key: string): SnapshotId => ({ tree: `_${key}`, key });

/** The id under which a snapshot is listed. */
export const snapshotId = ({ tree, key }: SnapshotId): string => (key === undefined ? tree : keyPrefix + key);

/** The snapshot of a folder below `s`; undefined for a foreign one. */
export function partsOfTree(tree: string): SnapshotId | undefined {
  if (tree.startsWith("_")) return isVolumeId(tree.slice(1)) ? partsOfKey(tree.slice(1)) : undefined;
  return isOldTree(tree) ? { tree, key: undefined } : undefined;
}

/**
 * Reads `f/<key>`, democratic-csi's `snapshot_driver=filecopy&snapshot_id=<folder>`, and its older bare `<folder>`.
 * Undefined for any other id.
 */
export function parseSnapshotId(id: string): SnapshotId | undefined {
  if (id.startsWith(keyPrefix)) {
    const key = id.slice(keyPrefix.length);
    return isVolumeId(key) ? partsOfKey(key) : undefined;
  }
  if (!id.includes("=")) return isOldTree(id) ? { tree: id, key: undefined } : undefined;
  const query = new URLSearchParams(id.replaceAll("+", "%2B"));
  const method = query.get("snapshot_driver");
  const tree = query.get("snapshot_id") ?? "";
  return method === "filecopy" && isOldTree(tree) ? { tree, key: undefined } : undefined;
}

/** The parts of the id of a snapshot in a repository. */
export interface BackupId {
  readonly method: BackupMethod;
  /** Its id in the repository, or the first 32 or more digits. */
  readonly id: string;
}

const letters: Readonly<Record<string, BackupMethod>> = { r: "restic", k: "kopia" };

/** The digits used of an id: unique in a repository (128 bits), and short enough for a CSI handle. */
const digits = 32;

/** The id under which a backup is listed. */
export const backupId = ({ method, id }: BackupId, maxIdBytes: number): string =>
  `${method.charAt(0)}/${id.slice(0, Math.min(digits, maxIdBytes - 2))}`;

/** Reads `r/<id>`, `k/<id>`, and democratic-csi's `snapshot_driver=restic&snapshot_id=<id>`. Undefined for any other id. */
export function parseBackupId(text: string): BackupId | undefined {
  const query = text.includes("=") ? new URLSearchParams(text) : undefined;
  const [letter = "", own = ""] = query ? [] : text.split("/");
  const method = letters[query ? (query.get("snapshot_driver") ?? "").charAt(0) : letter];
  const id = query?.get("snapshot_id") ?? own;
  const isNamed = query ? query.get("snapshot_driver") === method : text === `${letter}/${own}`;
  return method && isNamed && /^[0-9a-f]{32,64}$/.test(id) ? { method, id } : undefined;
}

const uuid = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";
const usual = new RegExp(`^(.+-${uuid})-snapshot-${uuid}$`);

/** The volume of an old folder with names of Kubernetes, for example `pvc-<uuid>-snapshot-<uuid>`. */
export const usualSource = (tree: string): string | undefined => usual.exec(tree)?.[1];

/**
 * The volume of any other old folder `<volume id>-<snapshot name>`, which is ambiguous: the longest existing volume that fits,
 * otherwise everything before the last dash.
 */
export function oldSource(tree: string, volumeIds: readonly string[]): string {
  const fits = volumeIds.filter(id => tree.startsWith(`${id}-`)).sort((a, b) => b.length - a.length);
  return fits[0] ?? tree.slice(0, tree.lastIndexOf("-"));
}
