import { NotDsm } from "./dsm-error.ts";

/** A mapping of an answer of DSM. */
export type Row = Readonly<Record<string, unknown>>;

export const textOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" ? `${value}` : "";

/** A size in bytes; 0 for anything else. */
export const bytesOf = (value: unknown): bigint => (/^\d+$/.test(textOf(value)) ? BigInt(textOf(value)) : 0n);

const isRow = (value: unknown): value is Row => typeof value === "object" && value !== null && !Array.isArray(value);

/** A list within an answer; DSM leaves out some that are empty. Throws NotDsm for anything else than mappings. */
export function rows(data: Row, key: string): readonly Row[] {
  const list = data[key] ?? [];
  if (Array.isArray(list) && list.every(isRow)) return list;
  throw new NotDsm(`DSM has answered something else than a list of ${key}`);
}

/**
 * The list that a request is for. The answer to another request must not read as an empty list, by which a volume would count as
 * deleted: an answer without the list is asked for twice, and one that holds something else instead is an error.
 */
export async function listed(ask: () => Promise<Row>, key: string): Promise<readonly Row[]> {
  for (let asked = 1; asked <= 2; asked++) {
    const data = await ask();
    if (data[key] !== undefined) return rows(data, key);
    if (Object.keys(data).length > 0) throw new NotDsm(`DSM has answered without a list of ${key}`);
  }
  return [];
}

/** Free bytes and state of a volume of DSM. Throws NotDsm where the answer does not tell. */
export function volumeIn(data: Row): { readonly free: bigint; readonly status: string } {
  const volume = isRow(data["volume"]) ? data["volume"] : {};
  if (!/^\d+$/.test(textOf(volume["size_free_byte"])))
    throw new NotDsm("DSM has answered without the free space of a volume");
  return { free: bytesOf(volume["size_free_byte"]), status: textOf(volume["status"]) };
}
