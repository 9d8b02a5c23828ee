import { HttpError } from "../../../io/dial.ts";
import { ZfsError, type ZfsFailure } from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import { ApiError, type ApiRow, errnos, isBusy, isDenied, isFull, isMissing, listOf } from "../api-error.ts";
import { isUserProperty } from "./values.ts";

/** Which requests a version has for datasets and snapshots, how they are sent, and what refusals mean in terms of ZFS. */

/** The first version with zfs.resource.query, which opens only the datasets that are named. */
export const withResources = 2510;
/** The first version that can rename datasets and snapshots. */
export const withRename = 2510;
/** The first version with zfs.resource.snapshot.* and zfs.resource.destroy; there snapshots get properties only at their creation. */
export const withSnapshotResources = 2600;

/** The service of snapshots up to 25.10. */
export const snapshotService = (version: number): string =>
  version >= withResources ? "pool.snapshot" : "zfs.snapshot";

/** The name of the dataset or snapshot in a row. */
export const nameOf = (row: ApiRow): string => String(row["id"] ?? row["name"]);

/** Whether user properties are among `properties`. */
export const wantsUser = (properties: readonly string[]): boolean => properties.some(isUserProperty);

/** The fields of a resource request that select properties. */
export function resourceFields(properties: readonly string[]) {
  const native = properties.filter(name => !isUserProperty(name) && name !== "type");
  // An empty list would select the default properties.
  return { properties: native.length > 0 ? native : null, get_user_properties: wantsUser(properties) };
}

/**
 * The same for queries up to 25.04 (of snapshots up to 25.10), which answer each property with five fields and user properties always
 * (datasets_serialized and __snapshot_details in libzfs.pyx of truenas/py-libzfs at TS-24.10.2.4). One more native property than could be
 * wanted: with none, or with the name and the txg alone, snapshots are answered with everything or without user properties.
 */
export const onlyProperties = (properties: readonly string[]) => ({
  properties: ["creation", ...properties.filter(name => !isUserProperty(name) && name !== "type")],
});

/**
 * The same for zfs.resource.query, with the sources of native properties. Without such a property, 26 fails when it is asked for sources
 * (plugins/zfs/normalization.py of TS-26.0.0-BETA.3).
 */
export function datasetFields(properties: readonly string[]) {
  const fields = resourceFields(properties);
  return { ...fields, get_source: fields.properties !== null };
}

/** A system of a known version, for one call. */
export interface System {
  readonly api: Api;
  readonly version: number;
  readonly signal: AbortSignal;
}

export const systemOf = async (api: Api, signal: AbortSignal): Promise<System> => ({
  ...{ api, signal },
  version: (await api.version(signal)).number,
});

/** The rows that a query answers. */
export const rowsOf = async (
  { api, signal }: Pick<System, "api" | "signal">,
  method: string,
  ...params: readonly unknown[]
): Promise<readonly ApiRow[]> => listOf(method, await api.call(method, params, signal));

/** Like rowsOf(), for queries by path, which refuse an unknown path: no rows then. */
export const present = (system: System, method: string, request: object): Promise<readonly ApiRow[]> =>
  rowsOf(system, method, request).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });

/** The states of pools by name. Empty for an account without the role POOL_READ, which can create volumes nevertheless. */
export async function poolStates(
  api: Api,
  names: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const rows = await rowsOf({ api, signal }, "pool.query", [["name", "in", names]]).catch((error: unknown) => {
    if (isDenied(error)) return [];
    throw error;
  });
  return new Map(rows.flatMap(({ name, status }) => (name && status ? [[String(name), String(status)] as const] : [])));
}

/** The error for a system that was upgraded, or downgraded, during a call: methods and parameters depend on the version. */
export const otherVersion = ({ where }: Pick<Api, "where">): HttpError =>
  new HttpError(where, "lost", "the system is of another version now");

/** Runs `work`, which was written for the system's version. Throws otherVersion() if a system of another version refused it. */
export async function ofVersion<T>({ api, version, signal }: System, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ApiError && (await api.version(signal)).number !== version) throw otherVersion(api);
    throw error;
  }
}

/** Failures of ZFS by the server's words, for those that have no number. */
const failuresByText: readonly (readonly [RegExp, ZfsFailure])[] = [
  [/\b(?:dependent clones|following clones)\b/, "dependents"],
  [/\b(?:following holds|being held)\b/, "held"],
  [/\balready exists\b/, "exists"],
  [/\b(?:does not exist|not found)\b/, "absent"],
  // The snapshot to send (get_snapshots_to_send_with_name_pattern() in snapshots_to_send.py of zettarepl).
  [/\bdoes not have any matching snapshots to replicate\b/, "absent"],
  // Another call has expanded it further (plugins/pool_/dataset.py, 24.10 to 26.0).
  [/\bcannot shrink a zvol\b/, "changed"],
  // The parents are to be created, and even their pool is missing (plugins/pool_/dataset.py of 24.10 and newer).
  [/\bspecify a pool which exists\b/, "absent"],
  [/\bbusy\b/, "busy"],
  [/\b(?:out of space|no space)\b/, "full"],
  [/\bhas (?:children|snapshots)\b/, "dependents"],
];

function failureOf(error: ApiError): ZfsFailure {
  if (isDenied(error)) return "denied";
  const byText = failuresByText.find(([pattern]) => pattern.test(error.message))?.[1];
  if (isFull(error)) return "full";
  if (isBusy(error)) return byText === "dependents" || byText === "held" ? byText : "busy";
  if (isMissing(error)) return "absent";
  if (error.problems.some(({ errno }) => errno === errnos.exists) || error.errno === errnos.exists) return "exists";
  if (error.errno === errnos.notEmpty) return "dependents";
  return byText ?? (error.problems.length > 0 ? "invalid" : "other");
}

/** The error of the port for a refusal of the API; any other error unchanged. */
export const zfsError = (error: unknown): unknown => {
  if (!(error instanceof ApiError) || isDenied(error) || error.errno === errnos.noMethod) return error;
  return new ZfsError(failureOf(error), error.message.replaceAll(/\s+/g, " "), { cause: error });
};

/** The failure of ZFS behind an error; undefined if it has another cause. */
export const whyNot = (error: unknown): ZfsFailure | undefined => {
  const known = zfsError(error);
  return known instanceof ZfsError ? known.failure : undefined;
};
