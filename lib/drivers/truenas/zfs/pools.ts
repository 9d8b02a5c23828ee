import type { Api } from "../api.ts";
import { isDenied } from "../api-error.ts";
import { rowsOf } from "./queries.ts";

/** What is read of a pool; its status is the word of zpool(8). */
interface PoolRow {
  readonly name?: string;
  readonly status?: string;
}

/** The states of pools by their names. An account without the role POOL_READ can make volumes all the same: nothing for it. */
export async function poolStates(
  api: Api,
  names: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const asked = rowsOf(api, "pool.query", [[["name", "in", names]]], signal);
  const rows: readonly PoolRow[] = await asked.catch((error: unknown) => {
    if (isDenied(error)) return [];
    throw error;
  });
  return new Map(rows.flatMap(({ name, status }) => (name && status ? [[name, status] as const] : [])));
}
