import type { Api } from "../api.ts";
import { isMissing, listOf, type Row } from "../api-error.ts";
import { isUserProperty } from "./values.ts";

/** What reading datasets and reading snapshots have in common: which requests a version has, and how they are asked. */

export type { Row };

/** zfs.resource.query: only what is named is opened. */
export const withResources = 2510;
/** zfs.resource.snapshot.* and zfs.resource.destroy; snapshots take properties at their creation only. */
export const withSnapshotResources = 2600;

/** The service of snapshots before there were resources of them. */
export const snapshotService = (version: number): string =>
  version >= withResources ? "pool.snapshot" : "zfs.snapshot";

/** The pool that a dataset or snapshot is in. */
export const poolOf = (name: string): string => name.split(/[/@]/)[0] ?? "";

/** The name of a row's dataset or snapshot. */
export const nameOf = (row: Row): string => String(row["id"] ?? row["name"]);

/** Whether user properties are among what is asked for. */
export const wantsUser = (properties: readonly string[]): boolean => properties.some(isUserProperty);

/** The fields of a request for resources that say what is to be told of them. */
export function resourceFields(properties: readonly string[]): object {
  const native = properties.filter(name => !isUserProperty(name) && name !== "type");
  // An empty list would mean the usual ones.
  return { properties: native.length > 0 ? native : null, get_user_properties: wantsUser(properties) };
}

/** The rows that a query answers. */
export const rowsOf = async (
  api: Api,
  method: string,
  params: readonly unknown[],
  signal: AbortSignal,
): Promise<readonly Row[]> => listOf(method, await api.call(method, params, signal));

/** As rowsOf(), for queries by path, which refuse one that is not there: nothing then. */
export async function present(
  api: Api,
  method: string,
  params: readonly unknown[],
  signal: AbortSignal,
): Promise<readonly Row[]> {
  try {
    return await rowsOf(api, method, params, signal);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}
