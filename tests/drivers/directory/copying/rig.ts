import { execFileSync } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { copyFiles } from "../../../../lib/copies/rsync/rsync.ts";
import {
  type CopySource,
  type CopySpec,
  type CopyTarget,
  copyKey,
  type SourceSnapshot,
} from "../../../../lib/drivers/copying.ts";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import type { Source } from "../../../../lib/drivers/volume.ts";
import { callWith, gib, volumeOf } from "../../../contract/rig.ts";
import { type OpenOptions, openOn } from "../directory-rig.ts";

const call = callWith();

/** Says that the lease is held. */
export const held = async (): Promise<void> => {};

/** A request for a copy of another connection's volume or snapshot. */
export const copyOf = (name: string, handle = "v:other/source", bytes = gib): CopySpec => ({
  ...volumeOf(name, bytes),
  origin: { kind: handle.startsWith("v:") ? "volume" : "snapshot", handle },
});

/** Two connections below `base`, the first with a volume `origin`. */
export async function connections(base: string, options: OpenOptions = {}) {
  const [a, b] = [`${base}/a`, `${base}/b`];
  for (const folder of [a, b]) await mkdir(folder);
  const [from, to] = [openOn(a), openOn(b, options)];
  await from.create(volumeOf("origin"), call);
  return { a, b, from, to, origin: `${a}/v/origin` };
}

/** What a driver of a directory gives and takes. */
export function abilities(driver: Driver): { readonly copySource: CopySource; readonly copyTarget: CopyTarget } {
  if (!driver.copySource || !driver.copyTarget) throw new Error("this driver cannot copy");
  return { copySource: driver.copySource, copyTarget: driver.copyTarget };
}

/** Runs an ability that must be there. */
export function needed<T>(ability: T | undefined): T {
  if (ability === undefined) throw new Error("this driver lacks it");
  return ability;
}

/** A snapshot that a test has made up. */
export const anyMoment: SourceSnapshot = {
  name: "s/_any",
  proof: "",
  bytes: 0n,
  toSend: 0n,
  stable: true,
  traits: { encrypted: undefined, blockBytes: 0n, fixed: {} },
};

/** The handle of a volume on the target's connection. */
export const handleOf = (id: string): string => `v:c1/${id}`;

/** The name of the file of what is protected for a volume. */
export const protectionOf = (id: string): string => `.csimux/moments/${copyKey(handleOf(id))}.json`;

/** A whole copy, as csimux makes it: each step is repeated by the next call after an interruption. */
export async function copyWhole(from: Driver, to: Driver, source: Source, spec: CopySpec): Promise<string> {
  const { copySource } = abilities(from);
  const { copyTarget } = abilities(to);
  const id = copyTarget.idOf(spec.name);
  if (!(await copyTarget.existing(spec, call))) {
    const snapshot = await copySource.protect(source, handleOf(id), 0, call);
    const refusal = await copyTarget.refusal(needed(snapshot.methods?.[0]), spec, snapshot, call);
    if (refusal) throw refusal;
    await copyTarget.begin(spec, snapshot, "begun", call);
    const folder = await needed(copyTarget.folder)(id, call);
    if (snapshot.methods?.[0] === "restore") await needed(copySource.fill)(snapshot, folder, call);
    else
      await needed(copySource.tree)(snapshot, call, tree =>
        copyFiles({ tree, folder, stable: snapshot.stable, progress: () => {} }, call),
      );
    await copyTarget.note(id, "copied", call);
    await copyTarget.finish(id, spec, snapshot, held, call);
  }
  await copySource.release(handleOf(id), undefined, call);
  await copyTarget.forget(id, call);
  return id;
}

const facts = `{ find . -printf '%P %y %m %U %G %n %T@ %l\\0' | sort -z; find . -type f -print0 | sort -z | xargs -0r sha256sum -z; } | sha256sum`;

/** A checksum of the contents of all files below a folder, of their names, and of everything about them but attributes. */
export const checksum = (folder: string): string =>
  execFileSync("sh", ["-c", facts], { cwd: folder, encoding: "latin1" });
