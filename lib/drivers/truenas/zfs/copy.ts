import { snapshotNameOf } from "../../zfs/names.ts";
import { ownValue, property, shownValue } from "../../zfs/properties.ts";
import { type Copy, notOurCopy, type Values, ZfsError } from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import { ApiError } from "../api-error.ts";
import { rowsOf, snapshotService, whyNot, withRename, zfsError } from "./queries.ts";
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
export async function copied(on: DatasetApi, copy: Copy, signal: AbortSignal): Promise<string> {
  const { api } = on;
  await untilWritten(api, copy.to, signal);
  const landing = await landingOf(on, copy, signal);
  if (landing.state === "outdated") await copyDestroyed(on, copy.to, signal);
  const whole = landing.state === "whole" ? landing : await received(on, copy, landing.state !== "partial", signal);
  await marked(api, copy.to, copy.values, signal);
  return whole.guid;
}

interface Landing {
  readonly state: "absent" | "partial" | "outdated" | "whole";
  /** Empty before 25.10, which does not show it. */
  readonly guid: string;
}

/**
 * What there is of a copy. A received snapshot has the guid of the sent one; an outdated copy has not, but was complete. Throws "used" for
 * a dataset that neither such a snapshot nor its mark proves to be csimux' unfinished copy.
 */
async function landingOf({ reading }: DatasetApi, { from, to }: Copy, signal: AbortSignal): Promise<Landing> {
  const end = `${to}@${snapshotNameOf(from)}`;
  // One after the other: of a dataset that another call makes again meanwhile, the guid is the earlier one, which is refused later. And read by
  // itself, because the reader keeps for a while what it has read of the datasets above the names that are asked for.
  const landing = await reading.one(to, ["guid", property.managed], signal);
  const entries = await reading.read({ names: [end, from], properties: ["guid"] }, signal);
  const [sent, got] = [from, end].map(name => entries.get(name)?.properties.get("guid")?.value);
  if (!landing) return { state: "absent", guid: "" };
  const guid = shownValue(landing, "guid") ?? "";
  if (got !== undefined && got === sent) return { state: "whole", guid };
  const mark = ownValue(landing, property.managed);
  if (mark === undefined) throw notOurCopy(to);
  return { state: mark === unfinishedMark[property.managed] && !entries.has(end) ? "partial" : "outdated", guid };
}

/** Makes a copy, or continues an unfinished one. Throws "unfinished" if a further call can continue what this one has left. */
async function received(on: DatasetApi, copy: Copy, fresh: boolean, signal: AbortSignal): Promise<Landing> {
  const { api } = on;
  const encrypted = await inheritsEncryption(api, copy, signal);
  const failure = await api.job(runOnetime, [copyRequest(copy, fresh, encrypted)], signal).then(
    () => new ZfsError("incomplete", `the copy to ${copy.to} has ended, but its snapshot does not exist`),
    (error: unknown) => error,
  );
  if (!(failure instanceof ApiError || failure instanceof ZfsError)) throw failure;
  const landing = await landingOf(on, copy, signal);
  if (landing.state === "whole") return landing;
  const refused = zfsError(failure);
  if (landing.state === "absent" || !(refused instanceof ZfsError) || refused.failure === "full") throw refused;
  if (!fresh && isLost(failure)) await copyDestroyed(on, copy.to, signal);
  throw new ZfsError("unfinished", refused.message, { cause: failure });
}

async function marked(api: Api, to: string, values: Copy["values"], signal: AbortSignal): Promise<void> {
  const { fields, user } = apiValues(values);
  if (Object.keys(values).length === 0) return;
  const changes = { ...fields, user_properties_update: asChanges(user) };
  await api.call("pool.dataset.update", [to, changes], signal).catch((error: unknown) => {
    throw zfsError(error);
  });
}

/** Properties that a clone cannot get, because they are fixed when the content is created. */
const keptByContent: ReadonlySet<string> = new Set(["casesensitivity", "encryption", "volblocksize"]);

type Step = "clone" | "promote" | "destroy";

/** The next step of moved(), by what there is; undefined if the copy is gone. Throws "exists" for a dataset that was not made of the copy. */
async function stepOf(
  { reading }: DatasetApi,
  from: string,
  to: string,
  signal: AbortSignal,
): Promise<Step | undefined> {
  const [copy, there] = await Promise.all([from, to].map(name => reading.one(name, ["origin"], signal)));
  if (!copy) return undefined;
  if (shownValue(copy, "origin")?.startsWith(`${to}@`)) return "destroy";
  if (!there) return "clone";
  if (shownValue(there, "origin")?.startsWith(`${from}@`)) return "promote";
  throw new ZfsError("exists", `${to} exists already, and was not made of ${from}`);
}

const following = { clone: "promote", promote: "destroy", destroy: undefined } as const;

/**
 * Gives a copy of csimux the name of its volume on versions that cannot rename (before 25.10): clones the copy with all its properties,
 * promotes the clone, and destroys the copy, which depends on the clone then. Skips the steps that another call has done, also meanwhile. Answers
 * whether there was anything to do. Throws "exists" for a dataset that was not made of the copy.
 */
export async function moved(on: DatasetApi, from: string, to: string, signal: AbortSignal): Promise<boolean> {
  const steps: Readonly<Record<Step, () => Promise<unknown>>> = {
    clone: () => cloned(on, from, to, signal),
    promote: () => on.api.call("pool.dataset.promote", [to], signal),
    destroy: () => copyDestroyed(on, from, signal),
  };
  const first = await stepOf(on, from, to, signal);
  for (let step = first; step; ) {
    try {
      await steps[step]();
      step = following[step];
    } catch (error) {
      const next: Step | undefined = whyNot(error) && (await stepOf(on, from, to, signal));
      if (whyNot(error) === undefined || next === step) throw zfsError(error);
      step = next;
    }
  }
  return first !== undefined;
}

/** As Zfs.finishRename. A copy that the volume was not made of came too late, and is not renamed any more. */
export async function renameFinished(on: DatasetApi, from: string, to: string, signal: AbortSignal): Promise<boolean> {
  if ((await on.api.version(signal)).number >= withRename) return false;
  return moved(on, from, to, signal).catch((error: unknown) => {
    if (whyNot(error) === "exists") return false;
    throw error;
  });
}

async function cloned({ api, reading }: DatasetApi, from: string, to: string, signal: AbortSignal): Promise<void> {
  const { number } = await api.version(signal);
  const all = await reading.below(from, ["snapshot"], ["createtxg"], 1, signal);
  // The first is the one that was copied; others may come from a periodic task.
  const age = (at: number) => Number(all[at]?.properties.get("createtxg")?.value ?? 0);
  const [first] = all.map((_, at) => at).sort((a, b) => age(a) - age(b));
  const snapshot = all[first ?? 0]?.name;
  const dataset_properties = await valuesOf(api, from, signal);
  // Another call makes the copy again, which gets its properties last.
  if (snapshot === undefined || dataset_properties[property.managed] !== "true")
    throw new ZfsError("changed", `${from} was changed by another call`);
  await api.call(`${snapshotService(number)}.clone`, [{ snapshot, dataset_dst: to, dataset_properties }], signal);
}

async function valuesOf(api: Api, name: string, signal: AbortSignal): Promise<Values> {
  const one = { extra: { retrieve_children: false } };
  const [row = {}] = await rowsOf({ api, signal }, "pool.dataset.query", [["id", "=", name]], one);
  return Object.fromEntries(Object.entries(localValues(row)).filter(([key]) => !keptByContent.has(key)));
}
