import { isMapping } from "../../core/mapping.ts";
import type { Finding } from "../../health/finding.ts";
import type { Dsm, Row } from "./client.ts";
import { NotDsm } from "./dsm-error.ts";

export const textOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" ? `${value}` : "";

/** A size in bytes; 0 for anything else. */
export const bytesOf = (value: unknown): bigint => (/^\d+$/.test(textOf(value)) ? BigInt(textOf(value)) : 0n);

/** A list in an answer; DSM omits some empty ones. Throws NotDsm for anything but a list of mappings. */
export function rows(data: Row, key: string): readonly Row[] {
  const list = data[key] ?? [];
  if (Array.isArray(list) && list.every(isMapping)) return list;
  throw new NotDsm(`DSM did not answer with a list of ${key}`);
}

/**
 * The list that a request asks for. A wrong answer must not count as an empty list, which would mean that volumes are deleted:
 * an answer without the list is requested again, and one with other content throws NotDsm.
 */
export async function listed(ask: () => Promise<Row>, key: string): Promise<readonly Row[]> {
  for (let asked = 1; asked <= 2; asked++) {
    const data = await ask();
    if (data[key] !== undefined) return rows(data, key);
    if (Object.keys(data).length > 0) throw new NotDsm(`DSM answered without a list of ${key}`);
  }
  return [];
}

/** A volume of DSM, such as /volume1. */
export interface DsmVolume {
  /** Free bytes. */
  readonly free: bigint;
  /** The state shown by DSM's storage manager; empty if unknown. */
  readonly status: string;
}

/** Reads a volume of DSM. Throws NotDsm if the answer lacks its free space, and as Dsm.call. */
export async function dsmVolume(dsm: Dsm, location: string, signal: AbortSignal): Promise<DsmVolume> {
  const params = { volume_path: location };
  const { volume } = await dsm.call({ api: "SYNO.Core.Storage.Volume", method: "get", params }, signal);
  const row = isMapping(volume) ? volume : {};
  if (!/^\d+$/.test(textOf(row["size_free_byte"]))) throw new NotDsm("DSM did not report the free space of the volume");
  return { free: bytesOf(row["size_free_byte"]), status: textOf(row["status"]) };
}

/** What the state of a volume of DSM means for everything on it. */
export function dsmFindings(location: string, { free, status }: DsmVolume): readonly Finding[] {
  const message = `DSM reports ${location} as "${status}"`;
  if (/crash/i.test(status)) return [{ reason: "PoolFaulted", message }];
  const full: readonly Finding[] =
    free > 0n ? [] : [{ reason: "StorageFull", message: `no space is free on ${location}` }];
  if (/read_?only/i.test(status)) return [...full, { reason: "StorageReadOnly", message }];
  return /degrade/i.test(status) ? [...full, { reason: "PoolDegraded", message }] : full;
}
