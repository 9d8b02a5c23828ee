import { snapshotNameOf } from "../../zfs/names.ts";
import { ownValue, property } from "../../zfs/properties.ts";
import { type Copy, notOurCopy, type Values, ZfsError } from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import { ApiError } from "../api-error.ts";
import { rowsOf, snapshotService, zfsError } from "./queries.ts";
import type { DatasetApi } from "./reading.ts";
import { copyDestroyed } from "./removal.ts";
import { copyRequest, inheritsEncryption, isLost, runOnetime, unfinishedMark, untilWritten } from "./replication.ts";
import { localValues } from "./rows.ts";
import { apiValues, asChanges } from "./values.ts";

/** Full copies of a snapshot: a replication that runs once, within the system. */

/**
 * As Zfs.copy. A job that already copies there is awaited, because it cannot be aborted; whatever becomes of a job, the dataset that it
 * has left decides: a complete copy has the snapshot, an unfinished one is continued.
 */
export async function copied(on: DatasetApi, copy: Copy, signal: AbortSignal): Promise<void> {
  const { api } = on;
  await untilWritten(api, copy.to, signal);
  const landing = await landingOf(on, copy, signal);
  if (landing === "outdated") await copyDestroyed(on, copy.to, signal);
  if (landing !== "whole") await received(on, copy, landing !== "partial", signal);
  await marked(api, copy.to, copy.values, signal);
}

/**
 * What there is of a copy. A received snapshot has the guid of the sent one; an outdated copy has not, but was complete. Throws "used" for
 * a dataset that neither such a snapshot nor its mark proves to be csimux' unfinished copy.
 */
async function landingOf(
  { reading }: DatasetApi,
  { from, to }: Copy,
  signal: AbortSignal,
): Promise<"absent" | "partial" | "outdated" | "whole"> {
  const end = `${to}@${snapshotNameOf(from)}`;
  const entries = await reading.read({ names: [to, end, from], properties: ["guid", property.managed] }, signal);
  const [sent, got] = [from, end].map(name => entries.get(name)?.properties.get("guid")?.value);
  const landing = entries.get(to);
  if (!landing) return "absent";
  if (got !== undefined && got === sent) return "whole";
  const mark = ownValue(landing, property.managed);
  if (mark === undefined) throw notOurCopy(to);
  return mark === unfinishedMark[property.managed] && !entries.has(end) ? "partial" : "outdated";
}

/** Makes a copy, or continues an unfinished one. Throws "unfinished" if a further call can continue what this one has left. */
async function received(on: DatasetApi, copy: Copy, fresh: boolean, signal: AbortSignal): Promise<void> {
  const { api } = on;
  const encrypted = await inheritsEncryption(api, copy, signal);
  const failure = await api.job(runOnetime, [copyRequest(copy, fresh, encrypted)], signal).then(
    () => new ZfsError("incomplete", `the copy to ${copy.to} has ended, but its snapshot does not exist`),
    (error: unknown) => error,
  );
  if (!(failure instanceof ApiError || failure instanceof ZfsError)) throw failure;
  const landing = await landingOf(on, copy, signal);
  if (landing === "whole") return;
  const refused = zfsError(failure);
  if (landing === "absent" || !(refused instanceof ZfsError) || refused.failure === "full") throw refused;
  if (!fresh && isLost(failure)) await copyDestroyed(on, copy.to, signal);
  throw new ZfsError("unfinished", refused.message, { cause: failure });
}

async function marked(api: Api, to: string, values: Copy["values"], signal: AbortSignal): Promise<void> {
  const { fields, user } = apiValues(values);
  if (Object.keys(values).length === 0) return;
  await api.call("pool.dataset.update", [to, { ...fields, user_properties_update: asChanges(user) }], signal);
}

/** Properties that a clone cannot get, because they are fixed when the content is created. */
const keptByContent: ReadonlySet<string> = new Set(["casesensitivity", "encryption", "volblocksize"]);

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
