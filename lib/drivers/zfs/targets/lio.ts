import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { Argv, Output } from "../../../io/runner.ts";
import type { Outputs, StorageHost } from "../../../io/script.ts";
import { closeStep, inspectStep, type LioPaths, restoredStep, targetsStep, wholeTarget } from "./lio-state.ts";
import {
  type ExportedTarget,
  isForeign,
  linesOf,
  refuseForeign,
  refuseLacking,
  refuseSessions,
  refuseUnproved,
  type Targets,
} from "./target-share.ts";
import { awaitDevice } from "./target-steps.ts";
import { hasSaved, type LioSettings, makeText, removeText, saveText, targetcliStep } from "./targetcli.ts";

/** How targetcli is used on a host. */
export interface LioHost extends LioSettings, LioPaths {
  /** How targetcli is called. */
  readonly targetcli: Argv;
}

/** Targets of LIO, made through targetcli and proved by what the kernel shows. */
export class LioTargets implements Targets {
  readonly #host: StorageHost;
  readonly #settings: LioHost;

  constructor(host: StorageHost, settings: LioHost) {
    this.#host = host;
    this.#settings = settings;
  }

  async make(target: ExportedTarget, standing: boolean, call: Call): Promise<void> {
    await awaitDevice(this.#host, target, call);
    await this.#host.exclusive("targetcli", call.signal, () => this.#make(target, standing, call));
  }

  remove(target: ExportedTarget, call: Call): Promise<void> {
    return this.#host.exclusive("targetcli", call.signal, () => this.#remove(target, call));
  }

  async exportedNames(call: Call): Promise<ReadonlySet<string>> {
    return linesOf(await this.#host.script({ steps: [targetsStep(this.#settings)] }, call.signal), "targets");
  }

  async #make(target: ExportedTarget, standing: boolean, call: Call): Promise<void> {
    const { targetcli, auth } = this.#settings;
    const looked = await this.#look(target, call);
    const before = linesOf(looked, "before");
    refuseForeign(target, before);
    if (standing && wholeTarget.every(each => before.has(each))) return;
    if (before.has("target")) refuseUnproved(target, standing || before.has("backstore"));
    refuseUnrestored(linesOf(looked, "restored"));
    const text = makeText(target, this.#settings, before.has("target") && !before.has("portal"));
    const make = targetcliStep("make", text, targetcli, Object.values(auth));
    const outputs = await this.#host.script(
      { steps: [make, inspectStep("after", target, this.#settings)] },
      call.signal,
    );
    const after = linesOf(outputs, "after");
    const lacking = wholeTarget.filter(each => !after.has(each));
    refuseLacking(target, lacking, outputs.get("make"));
    await this.#saved(outputs.get("make"), call);
  }

  async #remove(target: ExportedTarget, call: Call): Promise<void> {
    const looked = await this.#look(target, call);
    const before = linesOf(looked, "before");
    if (!before.has("backstore") && !before.has("target")) return this.#forgotten(looked, call);
    if (isForeign(before, "backstore")) return;
    refuseForeign(target, before);
    refuseOthers(target, before);
    if (before.has("target")) refuseUnproved(target, before.has("backstore") || before.has("lun"));
    refuseUnrestored(linesOf(looked, "restored"));
    const remove = targetcliStep("remove", removeText(target), this.#settings.targetcli, []);
    const steps = [closeStep(target, this.#settings), remove, inspectStep("after", target, this.#settings)] as const;
    const outputs = await this.#host.script({ steps }, call.signal);
    refuseSessions(target, outputs, "close");
    const after = linesOf(outputs, "after");
    if (after.has("target") || after.has("backstore"))
      throw new CsiError("aborted", `targetcli did not remove the target ${target.whole}; repeat the call`);
    await this.#saved(outputs.get("remove"), call);
  }

  /** A target that the kernel no longer has may still be saved, and would be back after a restart of the host. */
  async #forgotten(looked: Outputs, call: Call): Promise<void> {
    const restored = linesOf(looked, "restored");
    if (!restored.has("own")) return;
    refuseUnrestored(restored);
    await this.#saved(undefined, call);
  }

  /** What is not saved is gone when the host starts anew. */
  async #saved(output: Output | undefined, call: Call): Promise<void> {
    if (output && hasSaved(output)) return;
    const steps = [targetcliStep("save", saveText, this.#settings.targetcli, [])] as const;
    await this.#host.script({ steps }, call.signal);
  }

  #look(target: ExportedTarget, call: Call): Promise<Outputs> {
    const steps = [inspectStep("before", target, this.#settings), restoredStep(target, this.#settings)] as const;
    return this.#host.script({ steps }, call.signal);
  }
}

/** Saving now would forget for ever what the host has not restored yet; and rtslib restores nothing where it finds a target. */
function refuseUnrestored(restored: ReadonlySet<string>): void {
  const missing = [...restored].flatMap(line => (line.startsWith("missing ") ? [line.slice(8)] : []));
  if (missing.length === 0) return;
  throw new CsiError(
    "unavailable",
    `the kernel of the host lacks targets that targetcli has saved: ${missing.join(", ").slice(0, 400)}; restore them (targetctl restore) or, where they are not needed, save what there is (targetcli saveconfig)`,
  );
}

/** A backstore that another target leads to as well is not removed: its nodes would lose the disk. */
function refuseOthers({ backstore: asset, device }: ExportedTarget, seen: ReadonlySet<string>): void {
  const other = [...seen].find(each => each.startsWith("other "));
  if (other === undefined) return;
  throw new CsiError(
    "failed-precondition",
    `the backstore ${asset} of ${device} is also ${other.slice(6)}, which csimux did not make; remove that LUN first`,
  );
}
