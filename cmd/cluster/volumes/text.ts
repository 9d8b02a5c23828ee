import { size } from "../../../lib/core/amounts.ts";
import { placeOf } from "../../../lib/core/place.ts";
import { linesOf, tableWithin } from "../../terminal/table.ts";
import { visible } from "../../terminal/terminal.ts";
import type { VolumeRow } from "./compare.ts";
import { type KeptOn, keptData, keptText } from "./kept.ts";
import type { Listed } from "./site.ts";

/** Wide enough for two ids of claims on one line. */
const width = 120;

/** Whether storage has no PersistentVolume. */
export const noPv = ({ state }: Pick<VolumeRow, "state">): boolean => state === "orphaned" || state === "twin";

function summary(rows: readonly VolumeRow[], listed: readonly Listed[]): string {
  const counts = new Map<string, number>();
  for (const { state } of rows) if (state !== undefined) counts.set(state, (counts.get(state) ?? 0) + 1);
  const parts = [...counts].map(([state, count]) => `${count} ${state}`);
  const total = `${rows.length} volume${rows.length === 1 ? "" : "s"}, ${listed.length} connection${listed.length === 1 ? "" : "s"}`;
  return `${[total, parts.join(", ")].filter(part => part !== "").join(": ")}\n`;
}

/** The listing for people: a summary, the volumes, what is kept, and one line for each connection that could not be listed. */
export function listingText(
  rows: readonly VolumeRow[],
  listed: readonly Listed[],
  kept: readonly KeptOn[] = [],
): string {
  const cells = rows.map(({ connection, id, volume, state, pv, note }) => [
    visible(connection),
    visible(id),
    volume && volume.bytes > 0n ? size(volume.bytes) : "-",
    ...(state === undefined ? [] : [state, visible(pv?.claim ?? "-")]),
    visible(
      [pv && pv.name !== id ? pv.name : "", note ?? "", state ? "" : (placeOf(volume?.context ?? {}) ?? "")]
        .filter(each => each !== "")
        .join("; "),
    ),
  ]);
  const compares = rows.some(({ state }) => state !== undefined);
  const titles = ["CONNECTION", "VOLUME", "SIZE", ...(compares ? ["STATE", "CLAIM", "PV"] : ["STORAGE"])];
  const problems = listed.flatMap(({ name, problem }) =>
    problem === undefined ? [] : [`${name}: ${visible(problem)}`],
  );
  const table = rows.length === 0 ? "" : tableWithin(width, [titles, ...cells]);
  const wrapped = (lines: readonly string[]) =>
    lines.map(line => `${linesOf(line, width - 2).join("\n  ")}\n`).join("");
  return `${summary(rows, listed)}${table}${keptText(kept)}${wrapped(problems)}`;
}

/** The listing for programs; sizes in bytes, null for unknown values. Fields may be added, but not removed. */
export const listingData = (
  rows: readonly VolumeRow[],
  listed: readonly Listed[],
  driver: string,
  kept: readonly KeptOn[] = [],
) => ({
  driver,
  connections: listed.map(({ name, problem, isUnlisted }) => ({
    ...{ name, problem: problem ?? null, lists: !isUnlisted },
    keptProblem: kept.find(({ connection }) => connection === name)?.problem ?? null,
  })),
  volumes: rows.map(({ connection, id, handle, volume, state, pv, note }) => ({
    ...{ connection, id, handle, bytes: volume && volume.bytes > 0n ? Number(volume.bytes) : null },
    ...{ state: state ?? null, pv: pv?.name ?? null, claim: pv?.claim ?? null, note: note ?? null },
    source: volume?.source?.id ?? null,
    context: volume?.context ?? null,
  })),
  kept: keptData(kept),
});
