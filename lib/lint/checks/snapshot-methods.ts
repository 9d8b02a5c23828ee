import { type SchemaFinding, warning } from "../../schema/finding.ts";
import { at, textAt } from "../lint-input.ts";

/** Methods that keep snapshots in a repository, which has to be named. */
const withRepository: readonly (string | undefined)[] = ["restic", "kopia"];

/** Warns when a section asks for snapshots in a repository of which it says nothing. */
export function* snapshotMethod(value: unknown, section: string): Iterable<SchemaFinding> {
  const path = [section, "snapshots", "default_driver"];
  const method = textAt(value, ...path);
  if (!withRepository.includes(method) || at(value, section, "snapshots", method ?? "") !== undefined) return;
  const message = `snapshots by ${method} need its settings, so every snapshot is refused`;
  yield warning("snapshot-method-without-settings", path, message, `add snapshots.${method}`);
}
