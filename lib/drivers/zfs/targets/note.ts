import type { Outputs, Step } from "../../../io/script.ts";
import { refusal } from "../cli/answers.ts";
import { type Programs, setSteps } from "../cli/steps.ts";
import { ZfsError } from "../zfs.ts";
import type { ExportedTarget, Note } from "./exporter.ts";

/** The first steps of a script that makes a target, which ends with them if they fail: they note its name on the zvol that was read. */
export const noteSteps = (programs: Pick<Programs, "zfs">, { dataset, guid }: ExportedTarget, note: Note = {}) =>
  setSteps(programs, dataset, note, { guid }).map((step): Step => ({ ...step, name: `note ${step.name}` }));

/** Throws why a step of `noteSteps` failed, as `refuseChanged`. */
export function refuseUnnoted(outputs: Outputs): void {
  for (const [name, output] of outputs) {
    if (!name.startsWith("note ") || output.exitCode === 0) continue;
    refuseChanged(outputs, name);
    throw refusal(output);
  }
}

/** Throws "changed" for a step under the lock of a zvol that did not run, because another controller has removed or replaced the zvol. */
export function refuseChanged(outputs: Outputs, name: string): void {
  const output = outputs.get(name);
  if (!output || output.exitCode === 0) return;
  const { failure, message } = refusal(output);
  if (failure === "changed" || failure === "absent") throw new ZfsError("changed", message);
}
