import { pause } from "../../../core/time.ts";
import { datasetOf, snapshotNameOf } from "../../zfs/names.ts";
import { property } from "../../zfs/properties.ts";
import { type Copy, ZfsError } from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import type { ApiRow } from "../api-error.ts";
import { rowsOf } from "./queries.ts";
import { apiValues } from "./values.ts";

/** The replication that makes a copy within the system: its request, and the jobs that write to a dataset. */

export const runOnetime = "replication.run_onetime";

/**
 * The property that tells csimux' own unfinished copy from other datasets. The receive sets it with its first byte: zettarepl passes the
 * overridden properties that the source has to `zfs recv -o`, and every volume and snapshot of csimux has this one (run.py,
 * calculate_replication_step_templates, of TS-24.10.2.4 to TS-25.10.2.2). "false", because the copy is not a volume yet.
 */
export const unfinishedMark = { [property.managed]: "false" } as const;

const escaped = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");

/**
 * The request that makes a copy, or continues an unfinished one. zettarepl resumes by the target's token only if the target may exist
 * (`only_from_scratch: false`); `allow_from_scratch` stays off, so that it never destroys a target with other snapshots. A new copy has
 * one attempt: each further one would be refused, because the first has left a target. `encrypted`: the dataset above the target is
 * encrypted; asked of an existing target, it would be compared with that (check_encrypted_target in run.py of the same versions).
 */
export const copyRequest = ({ from, to, values }: Copy, fresh: boolean, encrypted: boolean): object => ({
  direction: "PUSH",
  transport: "LOCAL",
  source_datasets: [datasetOf(from)],
  target_dataset: to,
  name_regex: `^${escaped(snapshotNameOf(from))}$`,
  recursive: false,
  retention_policy: "NONE",
  readonly: "IGNORE",
  properties: false,
  properties_override: { ...apiValues(values).user, ...unfinishedMark },
  only_from_scratch: fresh,
  ...(fresh && { retries: 1 }),
  ...(fresh && encrypted && { encryption: true, encryption_inherit: true }),
});

/**
 * Whether a new copy is encrypted by the dataset above it, as zettarepl sees it: any ancestor counts. Throws "locked" if the key of the
 * source, or of the dataset above the copy, is not loaded: zfs can then neither send nor receive (libzfs_sendrecv.c of OpenZFS 2.4).
 */
export async function inheritsEncryption(api: Api, { from, to }: Copy, signal: AbortSignal): Promise<boolean> {
  const alone = { extra: { retrieve_children: false } };
  const rowOf = async (name: string): Promise<ApiRow | undefined> =>
    (await rowsOf({ api, signal }, "pool.dataset.query", [["id", "=", name]], alone))[0];
  const above = to.split("/").map((_, depth, parts) => parts.slice(0, depth).join("/"));
  const ancestors = above.filter(name => name !== "").reverse();
  const rows = await Promise.all([datasetOf(from), ...ancestors].map(rowOf));
  const locked = rows.slice(0, 2).find(row => row?.["locked"] === true);
  if (locked) throw new ZfsError("locked", `${locked["id"]} is encrypted and locked, so ${to} cannot be copied`);
  return rows.slice(1).some(row => row?.["encrypted"] === true);
}

/** Whether a job copies to this dataset: jobs outlive the call that started them, and this process. */
export async function isWritten(api: Api, to: string, signal: AbortSignal): Promise<boolean> {
  const filters = [
    ["method", "=", runOnetime],
    ["state", "in", ["WAITING", "RUNNING"]],
  ];
  const jobs = await rowsOf({ api, signal }, "core.get_jobs", filters);
  return jobs.some(
    ({ arguments: given }) =>
      Array.isArray(given) && (given[0] as ApiRow | null | undefined)?.["target_dataset"] === to,
  );
}

const firstLookMs = 100;
const lastLookMs = 2000;

/** Waits for the end of the jobs that copy to this dataset. What they have left is seen there. */
export async function untilWritten(api: Api, to: string, signal: AbortSignal): Promise<void> {
  for (let wait = firstLookMs; await isWritten(api, to, signal); wait = Math.min(wait * 2, lastLookMs))
    await pause(wait, signal);
}

/**
 * Whether an unfinished copy can never be continued, by the message of the refusal: its snapshot was taken again under the same name
 * (libzfs_sendrecv.c of OpenZFS 2.4), or it is not a partial one any more (run.py and dataset/data.py of zettarepl).
 */
export const isLost = (error: unknown): boolean =>
  error instanceof Error &&
  /no longer the same snapshot|No incremental base|Refusing to overwrite existing data/.test(error.message);
