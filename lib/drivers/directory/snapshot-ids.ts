import { backendName } from "../../core/name.ts";
import type { BackupMethod } from "./backup-tool.ts";
import { isVolumeId } from "./layout.ts";

/** A snapshot as an id names it. */
export interface SnapshotId {
  /** The folder below `s`. */
  readonly tree: string;
  /** The key of its record; undefined for a snapshot that democratic-csi made. */
  readonly key: string | undefined;
}

/**
 * democratic-csi's folders are `<volume id>-<snapshot name>`: they begin with a letter or digit and hold a dash.
 * Ours begin with "_", so that no name of a snapshot can ever lead to one of the old folders.
 */
const oldShape = /^[A-Za-z0-9][A-Za-z0-9_:.+-]{0,254}$/;
const keyPrefix = "f/";

/** Two dots within a name are harmless, and democratic-csi took them: a snapshot that cannot be named could never be deleted. */
const isOldTree = (name: string) => oldShape.test(name) && name.includes("-");

/** The record key for a snapshot name, with room for "f/" in an id of at most `maxIdBytes`. */
export const snapshotKey = (name: string, maxIdBytes: number): string =>
  backendName(name, maxIdBytes - keyPrefix.length);

export const placeOfKey = (key: string): SnapshotId => ({ tree: `_${key}`, key });

/** The id under which a snapshot is listed. */
export const snapshotId = ({ tree, key }: SnapshotId): string => (key === undefined ? tree : keyPrefix + key);

/** The snapshot that a folder below `s` holds; undefined for anything foreign. */
export function placeOfTree(tree: string): SnapshotId | undefined {
  if (tree.startsWith("_")) return isVolumeId(tree.slice(1)) ? placeOfKey(tree.slice(1)) : undefined;
  return isOldTree(tree) ? { tree, key: undefined } : undefined;
}

/**
 * Reads `f/<key>`, democratic-csi's `snapshot_driver=filecopy&snapshot_id=<folder>`, and its older bare `<folder>`.
 * Undefined for an id that no copy can have.
 */
export function parseSnapshotId(id: string): SnapshotId | undefined {
  if (id.startsWith(keyPrefix)) {
    const key = id.slice(keyPrefix.length);
    return isVolumeId(key) ? placeOfKey(key) : undefined;
  }
  if (!id.includes("=")) return isOldTree(id) ? { tree: id, key: undefined } : undefined;
  const query = new URLSearchParams(id.replaceAll("+", "%2B"));
  const method = query.get("snapshot_driver");
  const tree = query.get("snapshot_id") ?? "";
  return method === "filecopy" && isOldTree(tree) ? { tree, key: undefined } : undefined;
}

/** A snapshot in a repository as an id names it. */
export interface BackupId {
  readonly method: BackupMethod;
  /** Its id there, or the beginning of it: 32 digits or more. */
  readonly id: string;
}

const letters: Readonly<Record<string, BackupMethod>> = { r: "restic", k: "kopia" };

/** So many digits of an id tell it from all others in a repository (128 bits), and leave room in a CSI handle. */
const digits = 32;

/** The id under which a backup is listed. */
export const backupId = ({ method, id }: BackupId, maxIdBytes: number): string =>
  `${method.charAt(0)}/${id.slice(0, Math.min(digits, maxIdBytes - 2))}`;

/** Reads `r/<id>`, `k/<id>`, and democratic-csi's `snapshot_driver=restic&snapshot_id=<id>`. Undefined for anything else. */
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

/** The volume of an old folder that has the names Kubernetes gives, for example `pvc-<uuid>-snapshot-<uuid>`. */
export const usualSource = (tree: string): string | undefined => usual.exec(tree)?.[1];

/**
 * The volume of any other old folder `<volume id>-<snapshot name>`. The two parts cannot be told apart for sure: the longest
 * existing volume that fits, else everything before the last dash.
 */
export function oldSource(tree: string, volumeIds: readonly string[]): string {
  const fits = volumeIds.filter(id => tree.startsWith(`${id}-`)).sort((a, b) => b.length - a.length);
  return fits[0] ?? tree.slice(0, tree.lastIndexOf("-"));
}
