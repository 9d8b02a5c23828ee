import type { CsiError } from "../../core/errors.ts";
import { type Mount, parseMountinfo } from "../../core/mountinfo.ts";
import { unless } from "../../io/files.ts";
import { errorOn, type OperationContext } from "./operation-context.ts";

/** The mount points at or below `folder`, a path without links, in a mountinfo text. */
export const mountsIn = (mountinfo: string, folder: string): readonly string[] =>
  parseMountinfo(mountinfo)
    .map(({ at }) => at)
    .filter(point => `${point}/`.startsWith(`${folder}/`));

/**
 * The mount points of a folder, a path without links, or of one in it: mostly bind mounts of pods, which mountinfo shows as
 * mounts of the same device with the folder's path in its file system as root (proc(5)).
 */
export function mountsOf(mounts: readonly Mount[], folder: string): readonly string[] {
  const within = (at: string) => at === "/" || `${folder}/`.startsWith(`${at}/`);
  const own = mounts
    .filter(({ at }) => within(at))
    .reduce<Mount | undefined>((best, mount) => (best && best.at.length > mount.at.length ? best : mount), undefined);
  if (own === undefined) return [];
  const below = own.at === "/" ? folder : folder.slice(own.at.length);
  const path = own.root.replace(/\/$/, "") + below;
  const same = mounts.filter(
    mount => mount !== own && mount.device === own.device && !mount.root.endsWith("//deleted"),
  );
  return same.filter(({ root }) => `${root}/`.startsWith(`${path}/`)).map(({ at }) => at);
}

const inUse = (context: OperationContext, doing: string, how: string, point: string): CsiError =>
  errorOn(
    context,
    "failed-precondition",
    `cannot ${doing}, because ${how} at ${JSON.stringify(point.slice(0, 300))}; unmount that`,
  );

const inIt = "something is mounted in it";

/**
 * Throws "failed-precondition" if something is mounted in the folder, which is not a link. A removal would empty it:
 * `rm --one-file-system` stops at another file system, but not at a bind mount of the same one.
 */
export async function refuseMounts(context: OperationContext, folder: string): Promise<void> {
  const mountinfo = await context.files.readText("/proc/self/mountinfo");
  if (mountinfo === undefined) return;
  const [first] = mountsIn(mountinfo, await context.files.realPath(folder));
  if (first !== undefined) throw inUse(context, `remove ${folder}`, inIt, first);
}

/**
 * Throws "failed-precondition" if something is mounted below the folder, a path without links that may itself be a mount
 * point: a copy would omit it.
 */
export function refuseMountsBelow(context: OperationContext, folder: string, mountinfo: string): void {
  const [first] = mountsIn(mountinfo, folder).filter(point => point !== folder);
  if (first !== undefined) throw inUse(context, `copy ${folder}`, inIt, first);
}

/**
 * Throws "failed-precondition" if the folder `name` in `parent` is mounted anywhere that this process sees, and therefore in
 * use, or if something is mounted in it. Reads the mount table once, and no more unless it contains the name.
 */
export async function refuseMounted(context: OperationContext, parent: string, name: string): Promise<void> {
  const { files } = context;
  const mountinfo = await files.readText("/proc/self/mountinfo");
  // The characters of a name are never escaped there.
  if (!mountinfo?.includes(`/${name}`)) return;
  const real = await unless(files.realPath(parent), "ENOENT");
  if (real === undefined) return;
  const folder = `${real}/${name}`;
  const [inside] = mountsIn(mountinfo, folder);
  const [first] = mountsOf(parseMountinfo(mountinfo), folder);
  const removal = `remove ${parent}/${name}`;
  if (first !== undefined) throw inUse(context, removal, "it is mounted", first);
  if (inside !== undefined) throw inUse(context, removal, inIt, inside);
}
