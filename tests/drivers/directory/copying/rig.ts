import { execFileSync } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { copyFiles } from "../../../../lib/copies/rsync.ts";
import {
  type CopySpec,
  copyKey,
  type GivingAbility,
  type Moment,
  type TakingAbility,
} from "../../../../lib/drivers/copying.ts";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import type { Source } from "../../../../lib/drivers/volume.ts";
import { callWith, gib, volumeOf } from "../../../contract/rig.ts";
import { type OpenOptions, openOn } from "../directory-rig.ts";

const call = callWith();

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
export function abilities(driver: Driver): { readonly giving: GivingAbility; readonly taking: TakingAbility } {
  if (!driver.giving || !driver.taking) throw new Error("this driver cannot copy");
  return { giving: driver.giving, taking: driver.taking };
}

/** Runs an ability that must be there. */
export function needed<T>(ability: T | undefined): T {
  if (ability === undefined) throw new Error("this driver lacks it");
  return ability;
}

/** A moment that a test has made up. */
export const anyMoment: Moment = {
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
  const { giving } = abilities(from);
  const { taking } = abilities(to);
  const id = taking.idOf(spec.name);
  if (!(await taking.existing(spec, call))) {
    const moment = await giving.protect(source, handleOf(id), 0, call);
    const refusal = await taking.refusal(needed(moment.ways?.[0]), spec, moment, call);
    if (refusal) throw refusal;
    await taking.begin(spec, moment, "begun", call);
    const folder = await needed(taking.folder)(id, call);
    if (moment.ways?.[0] === "fill") await needed(giving.fill)(moment, folder, call);
    else
      await needed(giving.tree)(moment, call, tree =>
        copyFiles({ tree, folder, stable: moment.stable, progress: () => {} }, call),
      );
    await taking.note(id, "copied", call);
    await taking.land(id, spec, moment, call);
  }
  await giving.release(handleOf(id), undefined, call);
  await taking.forget(id, call);
  return id;
}

const facts = `{ find . -printf '%P %y %m %U %G %n %T@ %l\\0' | sort -z; find . -type f -print0 | sort -z | xargs -0r sha256sum -z; } | sha256sum`;

/** A checksum of the contents of all files below a folder, of their names, and of everything about them but attributes. */
export const checksum = (folder: string): string =>
  execFileSync("sh", ["-c", facts], { cwd: folder, encoding: "latin1" });
