import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { protocols } from "../../core/protocols.ts";
import type { CommandRunner } from "../../io/runner.ts";
import type { Attacher, Wanted } from "../attacher.ts";
import { lookAt } from "../look.ts";
import { checkedPath, realPlace } from "../paths.ts";

/**
 * A folder of this node, `path` in the volume context. The node does not know the connection's base folder, so what can be
 * held against a forged path here is its form, and that it is a real folder under its own name (N-16).
 * `fs_type` is ignored: no file system is made (F24).
 */
export const hostpath = (runner: CommandRunner): Attacher => ({
  access: protocols.hostpath,
  async attach(wanted, _, call) {
    return { kind: "folder", path: await folder(wanted, runner, call) };
  },
});

async function folder({ volumeId, context, table }: Wanted, runner: CommandRunner, call: Call): Promise<string> {
  const subject = `volume "${volumeId}"`;
  const path = checkedPath(context["path"] ?? "", `${subject}: volume_context key path`);
  const place = await realPlace(path, table, call.signal);
  const kind = await lookAt(place, table, runner, call.signal);
  if (kind === "directory") return place;
  if (kind === undefined) throw new CsiError("not-found", `${subject}: the folder ${path} does not exist on this node`);
  throw new CsiError("failed-precondition", `${subject}: ${path} is a ${kind}, not a folder; it will not be mounted`);
}
