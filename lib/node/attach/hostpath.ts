import { dirname, join } from "node:path";
import { protocols } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { CommandRunner } from "../../io/runner.ts";
import { checkedPath, fileTypeAt, resolveParents } from "../mount/files.ts";
import { isWithin, type MountTable } from "../mount/mount-table.ts";
import type { Attacher, AttacherPorts, AttachRequest } from "./attacher.ts";

/**
 * A folder of this node, `path` in the volume context. Every user who can create PersistentVolumes can name any path,
 * so it must be a real folder under its own name and, if node.hostpath.folders is set, lie below one of those folders
 * after resolving links. The mount is compared with the folder found here, so a link planted later is not followed.
 * `fs_type` is ignored: the folder is mounted as it is and nothing is formatted.
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
  const resolved = await resolveParents(path, table, call.signal);
  if (allowed && !(await lies(resolved, allowed, table, call.signal)))
    throw new CsiError("permission-denied", `${subject}: ${path} is not below any of node.hostpath.folders`);
  const kind = await fileTypeAt(resolved, table, runner, call.signal);
  if (kind === "directory") return resolved;
  if (kind === undefined) throw new CsiError("not-found", `${subject}: the folder ${path} does not exist on this node`);
  throw new CsiError("failed-precondition", `${subject}: ${path} is a ${kind}, not a folder; it is not mounted`);
}

/** Whether a real path is below one of these folders, after resolving links in the folders. */
async function lies(
  resolved: string,
  folders: readonly string[],
  table: MountTable,
  signal: AbortSignal,
): Promise<boolean> {
  const inside = folders.map(folder => join(checkedPath(folder, "node.hostpath.folders"), "volume"));
  const real = await Promise.all(inside.map(path => resolveParents(path, table, signal)));
  return real.some(path => resolved !== dirname(path) && isWithin(dirname(path), resolved));
}
