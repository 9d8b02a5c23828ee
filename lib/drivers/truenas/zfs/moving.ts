import { type Values, ZfsError } from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import type { CopyTools } from "./copy.ts";
import { type Row, rowsOf, snapshotService } from "./queries.ts";
import { localValues } from "./rows.ts";

/** What a clone takes of a copy: not what is fixed when the content is made. */
const keptByContent: ReadonlySet<string> = new Set([
  ...["aclmode", "acltype", "casesensitivity", "encryption", "volblocksize"],
]);

/**
 * Gives a copy that csimux made the name of its volume, where the API cannot rename (before 25.10): it becomes a clone of the copy
 * with all its properties, and takes over its content; then the copy, which depends on it now, is removed. Any step that was done
 * before is not done again. Answers whether there was anything to do. Throws "exists" for a dataset that is somebody else's.
 */
export async function moved(tools: CopyTools, from: string, to: string, signal: AbortSignal): Promise<boolean> {
  const { api, reading, remove } = tools;
  const [copy, there] = await Promise.all([from, to].map(name => reading.one(name, ["origin"], signal)));
  if (!copy) return false;
  const originOf = (entry: typeof copy | undefined) => entry?.properties.get("origin")?.value ?? "";
  const isTaken = originOf(copy).startsWith(`${to}@`);
  if (there && !isTaken && !originOf(there).startsWith(`${from}@`))
    throw new ZfsError("exists", `${to} exists already, and is not made of ${from}`);
  if (!there) await cloned(tools, from, to, signal);
  if (!isTaken) await api.call("pool.dataset.promote", [to], signal);
  await remove(from, signal);
  return true;
}

async function cloned({ api, reading }: CopyTools, from: string, to: string, signal: AbortSignal): Promise<void> {
  const { number } = await api.version(signal);
  const all = await reading.below(from, ["snapshot"], ["createtxg"], 1, signal);
  // The first is the one that it was copied with; others may be those of a periodic task.
  const age = (at: number) => Number(all[at]?.properties.get("createtxg")?.value ?? 0);
  const [first] = all.map((_, at) => at).sort((a, b) => age(a) - age(b));
  const snapshot = all[first ?? 0]?.name;
  if (snapshot === undefined) throw new ZfsError("invalid", `${from} has no snapshot`);
  const dataset_properties = await valuesOf(api, from, signal);
  await api.call(`${snapshotService(number)}.clone`, [{ snapshot, dataset_dst: to, dataset_properties }], signal);
}

async function valuesOf(api: Api, name: string, signal: AbortSignal): Promise<Values> {
  const params = [[["id", "=", name]], { extra: { retrieve_children: false } }];
  const [row]: readonly (Row | undefined)[] = await rowsOf(api, "pool.dataset.query", params, signal);
  return Object.fromEntries(Object.entries(localValues(row ?? {})).filter(([key]) => !keptByContent.has(key)));
}
