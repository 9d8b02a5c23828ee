import { type Permissions, ZfsError } from "../../zfs/zfs.ts";
import type { Api } from "../client.ts";
import { zfsError } from "./words.ts";

/** Typed requests: one without a mode is no request for permissions, and names of owners are taken. */
const typed = 2504;

const isNumber = (text: string | undefined): boolean => text === undefined || /^[0-9]+$/.test(text);

/** User and group as the API takes them: numbers as numbers, names under another key. */
const owner = ({ user, group }: Permissions): object => ({
  ...(user === undefined ? {} : isNumber(user) ? { uid: Number(user) } : { user }),
  ...(group === undefined ? {} : isNumber(group) ? { gid: Number(group) } : { group }),
});

/**
 * Mode and owner of the top folder of a file system. Each is a job, and a job that fails is a failure: what it was to set is not
 * set. The owner first, since a change of owner may clear bits of the mode (chown(2)).
 */
export async function permitted(api: Api, path: string, permissions: Permissions, signal: AbortSignal): Promise<void> {
  const { mode, user, group, acls } = permissions;
  if (acls.length > 0) throw new ZfsError("invalid", "access control lists are not set through the API");
  const { number } = await api.version(signal);
  if (number < typed && !(isNumber(user) && isNumber(group)))
    throw new ZfsError("invalid", "before TrueNAS 25.04 users and groups must be numbers");
  try {
    if (user !== undefined || group !== undefined)
      await api.job("filesystem.chown", [{ path, ...owner(permissions) }], signal);
    // A list inherited from above would stand in the way of a mode.
    if (mode !== undefined) await api.job("filesystem.setperm", [{ path, mode, options: { stripacl: true } }], signal);
  } catch (error) {
    throw zfsError(error);
  }
}
