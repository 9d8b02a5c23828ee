import type { Call } from "../../core/call.ts";
import { markProperties, strangerOf } from "./marks.ts";
import type { Space } from "./space.ts";

/** Whether a copy that is being made, or that one has left, is another connection's that uses the same parent. */
async function isOthers({ zfs, settings }: Space, name: string, call: Call): Promise<boolean> {
  const entry = (await zfs.read({ names: [name], properties: markProperties }, call.signal)).get(name);
  return entry !== undefined && strangerOf(entry, settings.marks) !== undefined;
}

/** Throws "aborted" when the place where a copy is made is another connection's now. */
export async function refuseOthers(space: Space, name: string, call: Call): Promise<void> {
  if (!(await isOthers(space, name, call))) return;
  throw space.error("aborted", `another connection makes the copy ${name}; give each connection a dataset of its own`);
}

/** Removes what an interrupted copy has left, unless it is another connection's. */
export async function removeStaging(space: Space, name: string, call: Call): Promise<void> {
  if (!(await isOthers(space, name, call))) await space.zfs.destroy(name, { recursive: true }, call.signal);
}
