import { type Finding, type Path, warning } from "../../schema/finding.ts";
import { textAt } from "../world.ts";

/** Methods of democratic-csi that are read but cannot be served. */
const notReady: readonly (string | undefined)[] = ["restic", "kopia"];

/** Warns when the text at `path` of `value` asks for snapshots that this version refuses to take. */
export function* snapshotMethod(value: unknown, path: Path): Iterable<Finding> {
  const method = textAt(value, ...path);
  if (!notReady.includes(method)) return;
  const message = `this version of csimux does not take snapshots with ${method}, so every snapshot is refused`;
  yield warning("snapshot-method-not-ready", path, message, "use filecopy");
}
