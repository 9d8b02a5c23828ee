import { CsiError } from "../../core/errors.ts";
import { unescaped } from "../../core/mountinfo.ts";
import type { Space } from "./space.ts";

/** The mount points at or below `folder` in a mountinfo text, spelt as the kernel spells them. `folder` holds no links. */
export function mountsIn(mountinfo: string, folder: string): readonly string[] {
  const points = mountinfo.split("\n").map(line => line.split(" ")[4] ?? "");
  return points.filter(point => `${unescaped(point)}/`.startsWith(`${folder}/`));
}

/**
 * Throws "failed-precondition" when something is mounted in the folder, whose name must not be a link. A removal would empty
 * what is mounted: `rm --one-file-system` stops at another file system, but not at a bind mount of the same one.
 */
export async function refuseMounts({ connection, files }: Space, folder: string): Promise<void> {
  const mountinfo = await files.readText("/proc/self/mountinfo");
  if (mountinfo === undefined) return;
  const [first] = mountsIn(mountinfo, await files.realPath(folder));
  if (first === undefined) return;
  throw new CsiError(
    "failed-precondition",
    `connection "${connection}": cannot remove ${folder}, because something is mounted in it at ${first.slice(0, 300)}; unmount that`,
  );
}
