import { dirname, join } from "node:path";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { protocols } from "../../core/protocols.ts";
import type { CommandRunner } from "../../io/runner.ts";
import { fileTypeAt } from "../mount/file-type.ts";
import { isWithin, type MountTable } from "../mount/mount-table.ts";
import { checkedPath, resolveParents } from "../mount/paths.ts";
import type { Attacher, AttacherPorts, AttachRequest } from "./attacher.ts";

/**
 * A folder of this node, `path` in the volume context. Anybody who may make PersistentVolumes can name any path: it must be a
 * real folder under its own name and, where this node was told them, lie below one of its folders for volumes, links
 * resolved. The mount is compared with what is found here, so a link that is planted later is not followed.
 * `fs_type` is ignored: a folder is mounted as it is, and no file system is made for it.
 */
export const hostpath = ({ runner, hostFolders }: Pick<AttacherPorts, "runner" | "hostFolders">): Attacher => ({
  access: protocols.hostpath,
  async attach(wanted, _, call) {
    return { kind: "folder", path: await folder(wanted, await hostFolders(), runner, call) };
  },
});

async function folder(
  { volumeId, context, table }: AttachRequest,
  allowed: readonly string[] | undefined,
  runner: CommandRunner,
  call: Call,
): Promise<string> {
  const subject = `volume "${volumeId}"`;
  const path = checkedPath(context["path"] ?? "", `${subject}: volume_context key path`);
  const place = await resolveParents(path, table, call.signal);
  if (allowed && !(await lies(place, allowed, table, call.signal))) {
    throw new CsiError("permission-denied", `${subject}: ${path} lies in none of node.hostpath.folders`);
  }
  const kind = await fileTypeAt(place, table, runner, call.signal);
  if (kind === "directory") return place;
  if (kind === undefined) throw new CsiError("not-found", `${subject}: the folder ${path} does not exist on this node`);
  throw new CsiError("failed-precondition", `${subject}: ${path} is a ${kind}, not a folder; it will not be mounted`);
}

/** Whether a real place is below one of these folders, whose own links are resolved as those of parents are. */
async function lies(
  place: string,
  folders: readonly string[],
  table: MountTable,
  signal: AbortSignal,
): Promise<boolean> {
  const inside = folders.map(folder => join(checkedPath(folder, "node.hostpath.folders"), "volume"));
  const real = await Promise.all(inside.map(path => resolveParents(path, table, signal)));
  return real.some(path => place !== dirname(path) && isWithin(dirname(path), place));
}
