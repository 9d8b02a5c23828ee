import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { listOf, unlessGone } from "../vanishing.ts";
import type { Pools, Thing } from "./pool.ts";

/** The guid as zfs shows it: a received snapshot has that of the sent one (OpenZFS 2.2.9, module/zfs/dmu_recv.c, dmu_recv_end_sync). */
export const guidOf = (thing: Thing): string => thing.sent ?? thing.guid;

/** Files by their paths below a folder, in base64. */
export type Files = Readonly<Record<string, string>>;

export function filesBelow(folder: string, path = ""): Files {
  const place = join(folder, path);
  const isFolder = unlessGone(() => statSync(place).isDirectory(), undefined);
  if (isFolder === undefined) return {};
  if (!isFolder) return unlessGone<Files>(() => ({ [path]: readFileSync(place).toString("base64") }), {});
  return Object.assign({}, ...listOf(place).map(name => filesBelow(folder, join(path, name)))) as Files;
}

export const sameContent = (pools: Pools, a: Thing, b: Thing): boolean =>
  JSON.stringify(filesBelow(pools.place(a))) === JSON.stringify(filesBelow(pools.place(b)));

/** What was written since a snapshot, `written@…` (zfsprops(7)). */
export function writtenSince(pools: Pools, thing: Thing, snapshot: string): string {
  const since = pools.find(`${thing.name}@${snapshot}`);
  if (!since) return "-";
  return sameContent(pools, thing, since) ? "0" : String(Math.max(1, pools.bytes(thing)));
}

/** Replaces what a folder holds. */
export function writeFiles(folder: string, files: Files): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), Buffer.from(text, "base64"));
  }
}
