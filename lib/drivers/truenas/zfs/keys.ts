import { isMapping } from "../../../core/mapping.ts";
import { shownValue } from "../../zfs/properties.ts";
import { type Entry, type NewDataset, ZfsError } from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import { type ApiRow, isDenied, listOf } from "../api-error.ts";
import { zfsError } from "./queries.ts";
import type { DatasetApi } from "./reading.ts";
import { apiValues, asChanges } from "./values.ts";

/** What the server does with a dataset besides making it: it mounts it, sets a list, and keeps the key of an encrypted one under its name. */

/**
 * Makes a dataset and answers its row. 26.0.0-BETA.1 to BETA.3 accept the user properties of a creation and drop them (do_create in
 * plugins/pool_/dataset.py; repaired by 90af82a363 for 26.0.0-RC.1): what the answer lacks is set again, since without marks it would be no one's.
 */
export async function marked(api: Api, { name, values }: NewDataset, request: object, signal: AbortSignal) {
  const row = await api.call("pool.dataset.create", [request], signal);
  const shown = isMapping(row) ? row["user_properties"] : undefined;
  const { user } = apiValues(values);
  if (!isMapping(shown) || Object.keys(user).every(key => key in shown)) return row;
  return api.call("pool.dataset.update", [name, { user_properties_update: asChanges(user) }], signal);
}

/** The first version over JSON-RPC: REST takes the arguments of this method in another form. */
const withJsonRpc = 2504;

/**
 * As Zfs.whyNotRenamed. No rename changes the name that a key is kept under, and the server forgets each day the keys of names that do not exist
 * (rename in plugins/pool_/dataset.py and sync_db_keys in plugins/pool_/dataset_encryption_info.py of TS-25.10.6 and TS-26.0.0-BETA.3). After its next
 * start the dataset, and its clones, which have the same key, could not be unlocked any more.
 */
export async function whyNotRenamed(
  { reading }: DatasetApi,
  name: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const entry = await reading.one(name, ["encryptionroot"], signal);
  if (entry === undefined || shownValue(entry, "encryptionroot") !== name) return undefined;
  return "has an encryption key of its own, which TrueNAS would lose with the name";
}

/**
 * As Zfs.proveUsable. The server mounts a dataset, keeps its key, and for SMB (`listed`) sets its access control list after it has made it (do_create
 * and create_impl in plugins/pool_/dataset.py of TS-24.10.2.4 to TS-26.0.0-BETA.3). Where it was ended or has failed in between, a share of the path has
 * the files of the dataset above, a volume without a key can be written to until the next start of the server and never read again, and one without
 * the list belongs to root alone.
 */
export async function usableProved(
  { api }: DatasetApi,
  listed: boolean,
  begun: Entry,
  { values, permissions }: NewDataset,
  signal: AbortSignal,
): Promise<void> {
  const { name } = begun;
  const interrupted = (what: string) =>
    new ZfsError("invalid", `TrueNAS has not ${what} ${name}, whose creation was interrupted; repeat`);
  if (shownValue(begun, "mounted") === "no") throw interrupted("mounted");
  const path = shownValue(begun, "mountpoint") ?? `/mnt/${name}`;
  if (listed && permissions?.mode === undefined && (await isTrivial(api, path, signal)))
    throw interrupted("set the access control list of");
  if ((values["encryption"] ?? "off") === "off" || (await api.version(signal)).number < withJsonRpc) return;
  const method = "pool.dataset.encryption_summary";
  const roots = listOf<ApiRow>(method, await api.job(method, [name, {}], signal));
  const root = roots.find(each => each["name"] === name);
  if (root && !(root["key_present_in_database"] === true && root["valid_key"] === true))
    throw interrupted("kept the key of");
}

/** Whether a path has nothing but permission bits; false for an account that may not ask. */
async function isTrivial(api: Api, path: string, signal: AbortSignal): Promise<boolean> {
  try {
    return ((await api.call("filesystem.getacl", [path, false], signal)) as ApiRow)["trivial"] === true;
  } catch (error) {
    if (isDenied(error)) return false;
    throw zfsError(error);
  }
}
