import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { Argv, Output } from "../../../io/runner.ts";
import type { Outputs, Step, StorageHost } from "../../../io/script.ts";
import { closeStep, inspectStep, type LioPaths, restoredStep, targetsStep, wholeTarget } from "./lio-state.ts";
import { uuidOf } from "./names.ts";
import {
  aloneStep,
  awaitDevice,
  type ExportedTarget,
  isForeign,
  linesOf,
  refuseForeign,
  refuseLacking,
  refuseSessions,
  refuseUnproved,
  type Targets,
} from "./share.ts";

/** Settings that every target gets, by the names of targetcli(8). */
export interface LioSettings {
  readonly groupAttributes: Readonly<Record<string, string>>;
  readonly auth: Readonly<Record<string, string>>;
  readonly blockAttributes: Readonly<Record<string, string>>;
}

const settings = (verb: string, values: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(values).map(([key, value]) => `set ${verb} ${key}=${value}`);

/**
 * What targetcli reads to make a target, with the settings of democratic-csi. Things that are there already it reports and goes on.
 * The backstore comes first, since its device proves whose a target is that was not finished; its serial follows from the zvol, so
 * that nodes know the disk again after the host has lost the target. `portal`: the target has lost its portal.
 */
export const makeText = (
  { whole, backstore: asset, device, guid }: ExportedTarget,
  more: LioSettings,
  portal: boolean,
): string =>
  [
    "cd /backstores/block",
    `create name=${asset} dev=${device}${guid === "" ? "" : ` wwn=${uuidOf(guid)}`}`,
    `cd /backstores/block/${asset}`,
    ...settings("attribute", more.blockAttributes),
    "cd /iscsi",
    `create ${whole}`,
    `cd /iscsi/${whole}/tpg1`,
    ...settings("attribute", more.groupAttributes),
    ...settings("auth", more.auth),
    ...(portal ? [`cd /iscsi/${whole}/tpg1/portals`, "create"] : []),
    `cd /iscsi/${whole}/tpg1/luns`,
    `create /backstores/block/${asset}`,
    "exit",
    "",
  ].join("\n");

/** What it reads to remove one. */
export const removeText = ({ whole, backstore: asset }: ExportedTarget): string =>
  ["cd /iscsi", `delete ${whole}`, "cd /backstores/block", `delete ${asset}`, "exit", ""].join("\n");

/** What it reads to save all targets. */
export const saveText = ["cd /", "saveconfig", "exit", ""].join("\n");

/**
 * Whether a run of targetcli has saved what there is, as it does when it ends unless its user has told it not to
 * (auto_save_on_exit). With many targets that takes longer than all else, so it is not asked for once more.
 */
export const hasSaved = ({ stdout }: Output): boolean => stdout.includes("Configuration saved to");

/** targetcli does not begin without a folder for its preferences, which it looks for in a home that a remote shell may lack. */
const homeText = 'export TARGETCLI_HOME=${TARGETCLI_HOME:-/root/.targetcli}; exec "$@"';

/** A run of targetcli over its standard input. */
export const targetcliStep = (name: string, stdin: string, targetcli: Argv, secret: readonly string[]): Step =>
  aloneStep(name, "targetcli", ["sh", "-c", homeText, "sh", ...targetcli], { stdin, secret });

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
