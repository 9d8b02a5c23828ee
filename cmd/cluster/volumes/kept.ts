import { size } from "../../../lib/core/amounts.ts";
import { mapLimit } from "../../../lib/core/semaphore.ts";
import type { Kept, Needing } from "../../../lib/drivers/kept.ts";
import { linesOf, someOf } from "../../terminal/table.ts";
import { visible } from "../../terminal/terminal.ts";
import type { VolumeRow } from "./compare.ts";
import { atOnce, type Listed, type Site } from "./site.ts";

/** The most things of one connection, what needs each, and how long a text from a storage may be; the text shows fewer things. */
const most = { things: 1_000, needing: 100, characters: 512, lines: 20 };

/** Something that is kept, with handles. */
interface KeptRow extends Pick<Kept, "what" | "name" | "bytes" | "frees" | "commands"> {
  /** The handle of the volume or snapshot that it is or was. */
  readonly of: string | undefined;
  readonly neededBy: readonly (Needing & { readonly claim: string | undefined })[];
  /** How many others need it. */
  readonly more: number;
}

/** What is kept on a connection, or in words why that is unknown or not everything. */
export interface KeptOn {
  readonly connection: string;
  readonly rows: readonly KeptRow[];
  readonly problem: string | undefined;
}

/** What each thing is, in the order of the listing. */
const words: Readonly<Record<Kept["what"], string>> = {
  "deleted-volume": "deleted volume",
  "deleted-snapshot": "deleted snapshot",
  "foreign-snapshot": "snapshot that csimux did not take",
  "copy-snapshot": "snapshot for a copy",
  snapshot: "snapshot",
  "clone-source": "snapshot for the clone",
};
const order = Object.keys(words);

const cut = (text: string): string => text.slice(0, most.characters);

/** Asks every connection that could be listed what it keeps. `rows`: the listing, for the claims of volumes. */
export function keptOn(
  { ask, handles }: Site,
  listed: readonly Listed[],
  rows: readonly VolumeRow[],
): Promise<readonly KeptOn[]> {
  const claims = new Map(rows.flatMap(({ handle, pv }) => (pv?.claim === undefined ? [] : [[handle, pv.claim]])));
  const able = listed.filter(({ problem }) => problem === undefined);
  return mapLimit(able, atOnce, async ({ name: connection }): Promise<KeptOn> => {
    const needing = ({ kind, name }: Needing) => {
      const ofKind = kind === "deleted-volume" ? "volume" : kind;
      const isOwn = ofKind === "volume" || ofKind === "snapshot";
      const handle = cut(isOwn ? handles.encode(ofKind, connection, name) : name);
      return { kind, name: handle, claim: kind === "volume" ? claims.get(handle) : undefined };
    };
    const rowOf = ({ what, name, of, bytes, neededBy, frees, commands }: Kept): KeptRow => ({
      ...{ what, bytes, frees, commands, name: cut(name) },
      of: of && cut(handles.encode(of.kind, connection, of.id)),
      neededBy: neededBy.slice(0, most.needing).map(needing),
      more: Math.max(0, neededBy.length - most.needing),
    });
    const asked = await ask(connection, async ({ driver }, call) => {
      const found = [...((await driver.kept?.list(call)) ?? [])];
      found.sort((a, b) => order.indexOf(a.what) - order.indexOf(b.what));
      const problem = `only ${most.things} of ${found.length} things that it keeps are shown`;
      return {
        rows: found.slice(0, most.things).map(rowOf),
        problem: found.length > most.things ? problem : undefined,
      };
    });
    if ("answer" in asked) return { connection, ...asked.answer };
    return { connection, rows: [], problem: `what it keeps is unknown: ${asked.problem}` };
  });
}

function needingText({ kind, name, claim }: KeptRow["neededBy"][number]): string {
  if (kind === "hold") return name === "" ? "a hold (zfs holds names it)" : `the hold ${name}`;
  const before = kind === "copy" ? "the copy to " : kind === "deleted-volume" ? "the deleted volume " : "";
  return `${before}${name}${claim === undefined ? "" : ` (claim ${claim})`}`;
}

function linesFor({ what, name, of, bytes, neededBy, more, frees, commands }: KeptRow): string {
  const head = [words[what], ...(of === undefined ? [] : [of])].join(" ");
  const others = neededBy.filter(each => what !== "clone-source" || each.name !== of).map(needingText);
  const needed = others.length === 0 ? "" : `; needed by ${someOf([...others, ...Array(more).fill("")])}`;
  const line = `${name}: ${head}${bytes > 0n ? `, ${size(bytes)}` : ""}${needed}; ${frees}`;
  // A command stays in one piece, so that it can be copied.
  return `  ${[...linesOf(visible(line), 116), ...commands.map(visible)].join("\n    ")}\n`;
}

/** For people: a block for each connection that keeps something, and a line for each that could not be asked. */
export const keptText = (kept: readonly KeptOn[]): string =>
  kept
    .map(({ connection, rows, problem }) => {
      const rest = rows.length - most.lines;
      const more = rest > 0 ? `  and ${rest} more; --json shows them\n` : "";
      const block = `${connection} keeps:\n${rows.slice(0, most.lines).map(linesFor).join("")}${more}`;
      const line = problem === undefined ? "" : `${linesOf(`${connection}: ${visible(problem)}`, 118).join("\n  ")}\n`;
      return `${rows.length > 0 ? block : ""}${line}`;
    })
    .join("");

/** For programs; sizes in bytes, null for unknown values. */
export const keptData = (kept: readonly KeptOn[]) =>
  kept.flatMap(({ connection, rows }) =>
    rows.map(({ what, name, of, bytes, neededBy, more, frees, commands }) => ({
      ...{ connection, what, name, of: of ?? null, bytes: bytes > 0n ? Number(bytes) : null },
      neededBy: neededBy.map(each => ({ kind: each.kind, name: each.name || null, claim: each.claim ?? null })),
      ...{ more, frees, commands },
    })),
  );
