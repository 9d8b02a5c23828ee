import { type Copy, type Values, ZfsError } from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import type { ApiRow } from "../api-error.ts";
import { rowsOf, snapshotService, zfsError } from "./queries.ts";
import type { DatasetApi } from "./reading.ts";
import { copyDestroyed } from "./removal.ts";
import { localValues } from "./rows.ts";
import { apiValues, asChanges } from "./values.ts";

/** Full copies of a snapshot: a replication that runs once, within the system. */

/** As Zfs.copy. The copy is complete when it has the snapshot; an incomplete one is replaced, unless a job still writes it. */
export async function copied(on: DatasetApi, { from, to, values }: Copy, signal: AbortSignal): Promise<void> {
  const { api, reading } = on;
  const name = from.slice(from.indexOf("@") + 1);
  // In this order: a copy that ends between the two requests is found complete, not mistaken for an interrupted one.
  if (await isCopied(api, to, signal)) throw new ZfsError("busy", `${to} is still being copied`);
  if (await reading.one(`${to}@${name}`, ["type"], signal)) return marked(api, to, values, signal);
  if (await reading.one(to, ["type"], signal)) await copyDestroyed(on, to, signal);
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

/** Whether a job copies to this dataset: jobs outlive the call that started them, and this process. */
async function isCopied(api: Api, to: string, signal: AbortSignal): Promise<boolean> {
  const filters = [
    ["method", "=", "replication.run_onetime"],
    ["state", "in", ["WAITING", "RUNNING"]],
  ];
  const jobs = await rowsOf({ api, signal }, "core.get_jobs", filters);
  return jobs.some(
    ({ arguments: given }) =>
      Array.isArray(given) && (given[0] as ApiRow | null | undefined)?.["target_dataset"] === to,
  );
}

async function marked(api: Api, to: string, values: Copy["values"], signal: AbortSignal): Promise<void> {
  const { fields, user } = apiValues(values);
  if (Object.keys(values).length === 0) return;
  await api.call("pool.dataset.update", [to, { ...fields, user_properties_update: asChanges(user) }], signal);
}

/** Properties that a clone cannot get, because they are fixed when the content is created. */
const keptByContent: ReadonlySet<string> = new Set([
  ...["aclmode", "acltype", "casesensitivity", "encryption", "volblocksize"],
]);

/**
 * Gives a copy of csimux the name of its volume on versions that cannot rename (before 25.10): clones the copy with all its properties,
 * promotes the clone, and destroys the copy, which depends on the clone then. Skips the steps that an earlier call has done. Answers
 * whether there was anything to do. Throws "exists" for a foreign dataset.
 */
export async function moved(on: DatasetApi, from: string, to: string, signal: AbortSignal): Promise<boolean> {
  const { api, reading } = on;
  const [copy, there] = await Promise.all([from, to].map(name => reading.one(name, ["origin"], signal)));
  if (!copy) return false;
  const originOf = (entry: typeof copy | undefined) => entry?.properties.get("origin")?.value ?? "";
  const isTaken = originOf(copy).startsWith(`${to}@`);
  if (there && !isTaken && !originOf(there).startsWith(`${from}@`))
    throw new ZfsError("exists", `${to} exists already, and was not made of ${from}`);
  if (!there) await cloned(on, from, to, signal);
  if (!isTaken) await api.call("pool.dataset.promote", [to], signal);
  await copyDestroyed(on, from, signal);
  return true;
}

async function cloned({ api, reading }: DatasetApi, from: string, to: string, signal: AbortSignal): Promise<void> {
  const { number } = await api.version(signal);
  const all = await reading.below(from, ["snapshot"], ["createtxg"], 1, signal);
  // The first is the one that was copied; others may come from a periodic task.
  const age = (at: number) => Number(all[at]?.properties.get("createtxg")?.value ?? 0);
  const [first] = all.map((_, at) => at).sort((a, b) => age(a) - age(b));
  const snapshot = all[first ?? 0]?.name;
  if (snapshot === undefined) throw new ZfsError("invalid", `${from} has no snapshot`);
  const dataset_properties = await valuesOf(api, from, signal);
  await api.call(`${snapshotService(number)}.clone`, [{ snapshot, dataset_dst: to, dataset_properties }], signal);
}

async function valuesOf(api: Api, name: string, signal: AbortSignal): Promise<Values> {
  const one = { extra: { retrieve_children: false } };
  const [row = {}] = await rowsOf({ api, signal }, "pool.dataset.query", [["id", "=", name]], one);
  return Object.fromEntries(Object.entries(localValues(row)).filter(([key]) => !keptByContent.has(key)));
}
