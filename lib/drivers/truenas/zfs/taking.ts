import type { Api } from "../api.ts";
import { snapshotService, withSnapshotResources } from "./queries.ts";
import type { DatasetReader } from "./reading.ts";
import { whyNot, zfsError } from "./words.ts";

/**
 * Takes a snapshot with all its properties: later ones would not be kept by 26. Answers it as zfs.snapshot.query shows it, which is
 * what the request answers up to 25.10 (plugins/zfs_/snapshot.py, create); undefined from 26 on. Throws ApiError.
 */
export async function taken(
  api: Api,
  id: string,
  values: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<unknown> {
  const { number } = await api.version(signal);
  const [dataset, name] = id.split("@");
  if (number < withSnapshotResources)
    return api.call(`${snapshotService(number)}.create`, [{ dataset, name, properties: values }], signal);
  await api.call("zfs.resource.snapshot.create", [{ dataset, name, user_properties: values }], signal);
  return undefined;
}

/** Takes a snapshot unless it is there. Throws ZfsError. */
export async function ensured(api: Api, reading: DatasetReader, id: string, signal: AbortSignal): Promise<void> {
  try {
    await taken(api, id, {}, signal);
  } catch (error) {
    const failure = whyNot(error);
    if (failure === "exists") return;
    if (failure === undefined || !(await reading.one(id, ["type"], signal))) throw zfsError(error);
  }
}
