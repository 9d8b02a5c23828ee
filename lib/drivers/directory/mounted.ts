import { CsiError } from "../../core/errors.ts";
import { unescaped } from "../../core/mountinfo.ts";
import type { Space } from "./space.ts";

/** The mount points at or below `folder` in a mountinfo text, spelt as the kernel spells them. `folder` holds no links. */
export function mountsIn(mountinfo: string, folder: string): readonly string[] {
  const points = mountinfo.split("\n").map(line => line.split(" ")[4] ?? "");
  return points.filter(point => `${unescaped(point)}/`.startsWith(`${folder}/`));
}

const inUse = ({ connection }: Space, doing: string, folder: string, point: string): CsiError =>
  new CsiError(
    "failed-precondition",
    `connection "${connection}": cannot ${doing} ${folder}, because something is mounted in it at ${point.slice(0, 300)}; unmount that`,
  );

/**
 * Throws "failed-precondition" when something is mounted in the folder, whose name must not be a link. A removal would empty
 * what is mounted: `rm --one-file-system` stops at another file system, but not at a bind mount of the same one.
 */
export async function refuseMounts(space: Space, folder: string): Promise<void> {
  const mountinfo = await space.files.readText("/proc/self/mountinfo");
  if (mountinfo === undefined) return;
  const [first] = mountsIn(mountinfo, await space.files.realPath(folder));
  if (first !== undefined) throw inUse(space, "remove", folder, first);
}

/**
 * Throws "failed-precondition" when something is mounted below the folder, which may itself be a mount point: a copy would leave it
 * out. The folder's path holds no links.
 */
export function refuseMountsBelow(space: Space, folder: string, mountinfo: string): void {
  const [first] = mountsIn(mountinfo, folder).filter(point => unescaped(point) !== folder);
  if (first !== undefined) throw inUse(space, "copy", folder, first);
}
