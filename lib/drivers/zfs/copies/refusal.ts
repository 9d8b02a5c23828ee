import type { Call } from "../../../core/call.ts";
import { datasetOf } from "../names.ts";
import { isEncrypted, markProperties, otherOwner } from "../properties.ts";
import type { ZfsStorage } from "../storage.ts";

// Why the content of a dataset must not become that of another one of the same connection.

/**
 * Throws "aborted" when another connection makes a copy of this name, and "failed-precondition" when the copy would not be encrypted although
 * its source is, or its class says so (`wanted`). A copy is encrypted if its parent is: the stream has plain content (zfs-send(8), -w).
 */
export async function refuseCopy(
  storage: ZfsStorage,
  source: string,
  staging: string,
  wanted: boolean,
  call: Call,
): Promise<void> {
  const { zfs, settings } = storage;
  const [dataset, parent] = [datasetOf(source), staging.slice(0, staging.lastIndexOf("/"))];
  const names = [...new Set([staging, dataset, parent])];
  const entries = await zfs.read({ names, properties: ["encryption", ...markProperties] }, call.signal);
  const left = entries.get(staging);
  if (left && otherOwner(left, settings.marks) !== undefined)
    throw storage.error(
      "aborted",
      `another connection makes the copy ${staging}; give each connection a dataset of its own`,
    );
  const why = wanted ? "the class asks for encryption" : `${dataset} is encrypted`;
  if ((wanted || isEncrypted(entries.get(dataset)) === true) && isEncrypted(entries.get(parent)) !== true)
    throw storage.error(
      "failed-precondition",
      `${why}, and a copy below ${parent} would not be encrypted; encrypt that dataset`,
    );
}

/** Throws "failed-precondition" for a clone of what is not encrypted, as clones keep that: for a class that asks for encryption. */
export async function refusePlainClone(storage: ZfsStorage, source: string, call: Call): Promise<void> {
  const dataset = datasetOf(source);
  const entries = await storage.zfs.read({ names: [dataset], properties: ["encryption"] }, call.signal);
  if (isEncrypted(entries.get(dataset)) === true) return;
  throw storage.error(
    "failed-precondition",
    `the class asks for encryption, and a clone of ${dataset} would not be encrypted, as that is not; use a class without zfs.encryption`,
  );
}
