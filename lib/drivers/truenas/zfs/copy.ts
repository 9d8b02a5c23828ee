import { type Copy, ZfsError } from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import { type Row, rowsOf } from "./queries.ts";
import type { DatasetReader } from "./reading.ts";
import { apiValues, asChanges } from "./values.ts";
import { zfsError } from "./words.ts";

/** Full copies of a snapshot: a replication that runs once, on the system itself. */

/** What a copy needs besides the API. */
export interface CopyTools {
  readonly api: Api;
  readonly reading: DatasetReader;
  /** Removes a dataset with its snapshots. */
  readonly remove: (name: string, signal: AbortSignal) => Promise<void>;
}

/**
 * As Zfs.copy. The copy is complete when the snapshot is on it, too; a half-made one is of no use and is made anew, unless it is
 * still being made.
 */
export async function copied(
  { api, reading, remove }: CopyTools,
  { from, to, values }: Copy,
  signal: AbortSignal,
): Promise<void> {
  const name = from.slice(from.indexOf("@") + 1);
  // In this order: a copy that ends between the two questions is found whole, not taken for one that broke off.
  if (await isCopied(api, to, signal)) throw new ZfsError("busy", `${to} is still being copied`);
  if (await reading.one(`${to}@${name}`, ["type"], signal)) return marked(api, to, values, signal);
  if (await reading.one(to, ["type"], signal)) await remove(to, signal);
  try {
    await api.job("replication.run_onetime", [request(from, to)], signal);
  } catch (error) {
    throw zfsError(error);
  }
  await marked(api, to, values, signal);
}

const escaped = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");

const request = (from: string, to: string): object => ({
  direction: "PUSH",
  transport: "LOCAL",
  source_datasets: [from.slice(0, from.indexOf("@"))],
  target_dataset: to,
  name_regex: `^${escaped(from.slice(from.indexOf("@") + 1))}$`,
  recursive: false,
  retention_policy: "NONE",
  readonly: "IGNORE",
  properties: false,
  only_from_scratch: true,
});

/** Jobs outlive the call that began them, and this process, too. */
async function isCopied(api: Api, to: string, signal: AbortSignal): Promise<boolean> {
  const filters = [
    ["method", "=", "replication.run_onetime"],
    ["state", "in", ["WAITING", "RUNNING"]],
  ];
  const jobs = await rowsOf(api, "core.get_jobs", [filters], signal);
  return jobs.some(
    ({ arguments: given }) => Array.isArray(given) && (given[0] as Row | null | undefined)?.["target_dataset"] === to,
  );
}

async function marked(api: Api, to: string, values: Copy["values"], signal: AbortSignal): Promise<void> {
  const { fields, user } = apiValues(values);
  if (Object.keys(values).length === 0) return;
  await api.call("pool.dataset.update", [to, { ...fields, user_properties_update: asChanges(user) }], signal);
}
