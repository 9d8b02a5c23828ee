import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { ProtectedSnapshot } from "../copying.ts";
import { keyOfCopySnapshot, keyOfTag } from "./names.ts";
import { ownValue, protectedIn, protectedProperty, shownValue } from "./properties.ts";
import type { ZfsStorage } from "./storage.ts";
import type { ZfsStreams } from "./streams.ts";
import type { Entry } from "./zfs.ts";

/** For which copies snapshots are protected, by their names. */
export async function protectedOf(
  { zfs }: Pick<ZfsStorage, "zfs">,
  streams: ZfsStreams,
  snapshots: readonly Entry[],
  { signal }: Call,
): Promise<ReadonlyMap<string, readonly ProtectedSnapshot[]>> {
  const held = snapshots.filter(each => shownValue(each, "userrefs") !== "0").map(({ name }) => name);
  const tags = await streams.tags(held, signal);
  const keys = new Set(
    [...tags.map(({ tag }) => keyOfTag(tag)), ...snapshots.map(({ name }) => keyOfCopySnapshot(name))].filter(
      key => key !== undefined,
    ),
  );
  const named = new Set([...tags.map(({ snapshot }) => snapshot), ...snapshots.map(({ name }) => name)]);
  if (keys.size === 0 || named.size === 0) return new Map();
  const properties = [...keys].map(protectedProperty);
  const entries = await zfs.read({ names: [...named], properties }, signal);
  return new Map(
    [...entries].map(([name, entry]) => [name, properties.flatMap(each => protectedIn(ownValue(entry, each)) ?? [])]),
  );
}

/** Throws "aborted" if one of these snapshots is read for a copy, whose target it names. */
export async function refuseWhileCopied(
  storage: ZfsStorage,
  what: string,
  snapshots: readonly Entry[],
  call: Call,
): Promise<void> {
  // Some versions of TrueNAS do not answer how many holds there are.
  const kept = snapshots.filter(
    each =>
      each.name.includes("@") && (shownValue(each, "userrefs") !== "0" || keyOfCopySnapshot(each.name) !== undefined),
  );
  const copying = kept.length === 0 ? undefined : storage.copying;
  if (!copying) return;
  const found = [...(await protectedOf(copying.storage, copying.streams, kept, call)).values()].flat();
  const targets = [...new Set(found.map(({ target }) => `"${target.slice(0, 160)}"`))];
  if (targets.length === 0) return;
  throw new CsiError(
    "aborted",
    `connection "${storage.connection}": ${what} is being copied to ${targets.slice(0, 3).join(", ")}; it is deleted after that`,
  );
}
