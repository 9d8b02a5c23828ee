import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Argv, Output } from "../../io/runner.ts";
import type { StorageHost } from "../../io/script.ts";
import { isForeign, linesOf, refuseForeign, refuseLacking, type Target, type Targets } from "./target-share.ts";
import { deviceStep, refuseAbsent } from "./target-steps.ts";
import {
  hasSaved,
  inspectStep,
  type LioSettings,
  makeText,
  removeText,
  saveText,
  targetcliStep,
  targetsStep,
  wholeTarget,
} from "./targetcli.ts";

/** How targetcli is used on a host. */
export interface LioHost extends LioSettings {
  /** How targetcli is called. */
  readonly targetcli: Argv;
  /** What comes before programs that read what only root may read. */
  readonly privileged: readonly string[];
  /** Where the kernel shows its targets; /sys/kernel/config/target but in tests. */
  readonly configfs: string;
}

/** Targets of LIO, made through targetcli and proved by what the kernel shows. */
export class LioTargets implements Targets {
  readonly #host: StorageHost;
  readonly #settings: LioHost;

  constructor(host: StorageHost, settings: LioHost) {
    this.#host = host;
    this.#settings = settings;
  }

  make(target: Target, standing: boolean, call: Call): Promise<void> {
    return this.#host.exclusive("targetcli", call.signal, () => this.#make(target, standing, call));
  }

  remove(target: Target, call: Call): Promise<void> {
    return this.#host.exclusive("targetcli", call.signal, () => this.#remove(target, call));
  }

  async standing(call: Call): Promise<ReadonlySet<string>> {
    const { configfs, privileged } = this.#settings;
    return linesOf(await this.#host.script({ steps: [targetsStep(configfs, privileged)] }, call.signal), "targets");
  }

  async #make(target: Target, standing: boolean, call: Call): Promise<void> {
    const { targetcli, auth } = this.#settings;
    const looked = await this.#host.script(
      { steps: [deviceStep(target.device), this.#inspect("before", target)] },
      call.signal,
    );
    refuseAbsent(looked, target);
    const before = linesOf(looked, "before");
    refuseForeign(target, before);
    if (standing && wholeTarget.every(each => before.has(each))) return;
    const make = targetcliStep("make", makeText(target, this.#settings), targetcli, Object.values(auth));
    const outputs = await this.#host.script({ steps: [make, this.#inspect("after", target)] }, call.signal);
    const after = linesOf(outputs, "after");
    const lacking = wholeTarget.filter(each => !after.has(each));
    refuseLacking(target, lacking, outputs.get("make"));
    await this.#saved(outputs.get("make"), call);
  }

  async #remove(target: Target, call: Call): Promise<void> {
    const looked = await this.#host.script({ steps: [this.#inspect("seen", target)] }, call.signal);
    const before = linesOf(looked, "seen");
    if (!before.has("backstore") && !before.has("target")) return;
    if (isForeign(before, "backstore")) return;
    refuseForeign(target, before);
    const remove = targetcliStep("remove", removeText(target), this.#settings.targetcli, []);
    const outputs = await this.#host.script({ steps: [remove, this.#inspect("after", target)] }, call.signal);
    const after = linesOf(outputs, "after");
    if (after.has("target") || after.has("backstore"))
      throw new CsiError("aborted", `targetcli did not remove the target ${target.whole}; repeat the call`);
    await this.#saved(outputs.get("remove"), call);
  }

  /** What is not saved is gone when the host starts anew. */
  async #saved(said: Output | undefined, call: Call): Promise<void> {
    if (said && hasSaved(said)) return;
    const steps = [targetcliStep("save", saveText, this.#settings.targetcli, [])] as const;
    await this.#host.script({ steps }, call.signal);
  }

  #inspect(name: string, target: Target) {
    const { configfs, privileged } = this.#settings;
    return inspectStep(name, target, configfs, privileged);
  }
}
