import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { Argv } from "../../../io/runner.ts";
import type { Outputs, Step, StorageHost } from "../../../io/script.ts";
import {
  type ExportedTarget,
  linesOf,
  refuseSessions,
  type TargetChange,
  type TargetState,
  type TargetTool,
  toolStep,
} from "./guard.ts";
import { closeStep, inspectStep, type LioPaths, restoredStep, targetsStep } from "./lio-state.ts";
import { uuidOf } from "./names.ts";

/** How targetcli is used on a host; settings by the names of targetcli(8). */
export interface LioHost extends LioPaths {
  /** How targetcli is called. */
  readonly targetcli: Argv;
  readonly groupAttributes: Readonly<Record<string, string>>;
  readonly auth: Readonly<Record<string, string>>;
  readonly blockAttributes: Readonly<Record<string, string>>;
}

const assigned = (group: string, values: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(values).map(([key, value]) => `set ${group} ${key}=${value}`);

/**
 * The commands that make a target, with the settings of democratic-csi; targetcli reports what exists and continues. The backstore
 * comes first, since its device proves whose an unfinished target is; its serial follows from the zvol, so that nodes recognise
 * the disk after the host has lost the target. `portal`: the target has lost its portal.
 */
const makeText = ({ qualifiedName, backstore, device, guid }: ExportedTarget, more: LioHost, portal: boolean): string =>
  [
    "cd /backstores/block",
    `create name=${backstore} dev=${device}${guid === "" ? "" : ` wwn=${uuidOf(guid)}`}`,
    `cd /backstores/block/${backstore}`,
    ...assigned("attribute", more.blockAttributes),
    "cd /iscsi",
    `create ${qualifiedName}`,
    `cd /iscsi/${qualifiedName}/tpg1`,
    ...assigned("attribute", more.groupAttributes),
    ...assigned("auth", more.auth),
    ...(portal ? [`cd /iscsi/${qualifiedName}/tpg1/portals`, "create"] : []),
    `cd /iscsi/${qualifiedName}/tpg1/luns`,
    `create /backstores/block/${backstore}`,
    "exit",
    "",
  ].join("\n");

const removeText = ({ qualifiedName, backstore }: ExportedTarget): string =>
  ["cd /iscsi", `delete ${qualifiedName}`, "cd /backstores/block", `delete ${backstore}`, "exit", ""].join("\n");

const saveText = ["cd /", "saveconfig", "exit", ""].join("\n");

/** targetcli needs a folder for its preferences, which it creates in a home that a remote shell may lack. */
const homeText = 'export TARGETCLI_HOME=${TARGETCLI_HOME:-/root/.targetcli}; exec "$@"';

/** A run of targetcli over its standard input. */
export const targetcliStep = (name: string, stdin: string, targetcli: Argv, secret: readonly string[]): Step =>
  toolStep(name, "targetcli", ["sh", "-c", homeText, "sh", ...targetcli], { stdin, secret });

/** Makes targets of LIO with targetcli; what the kernel shows proves them. */
export class LioTool implements TargetTool {
  readonly name = "targetcli";
  readonly own = ["target", "backstore"] as const;
  readonly holder = "backstore";
  readonly proofs = { make: ["backstore"], remove: ["backstore", "lun"] };
  readonly complete = ["backstore", "target", "enabled", "portal", "lun"];
  readonly #host: StorageHost;
  readonly #settings: LioHost;

  constructor(host: StorageHost, settings: LioHost) {
    this.#host = host;
    this.#settings = settings;
  }

  async inspect(target: ExportedTarget, call: Call): Promise<TargetState> {
    const outputs = await this.#run([inspectStep(target, this.#settings), restoredStep(target, this.#settings)], call);
    return {
      parts: linesOf(outputs, "inspect"),
      refuseChange: () => refuseUnrestored(linesOf(outputs, "restored")),
      // A target that the kernel no longer has may still be saved, and would be back after a restart of the host.
      forget: async () => {
        const restored = linesOf(outputs, "restored");
        if (!restored.has("own")) return;
        refuseUnrestored(restored);
        await this.#save(call);
      },
    };
  }

  async make(target: ExportedTarget, { parts }: TargetState, call: Call): Promise<TargetChange> {
    const text = makeText(target, this.#settings, parts.has("target") && !parts.has("portal"));
    const make = this.#targetcli("make", text, Object.values(this.#settings.auth));
    return this.#changed(await this.#run([make, inspectStep(target, this.#settings)], call), "make", call);
  }

  async remove(target: ExportedTarget, _before: TargetState, call: Call): Promise<TargetChange> {
    const remove = this.#targetcli("remove", removeText(target));
    const steps = [closeStep(target, this.#settings), remove, inspectStep(target, this.#settings)] as const;
    const outputs = await this.#run(steps, call);
    refuseSessions(target, outputs);
    return this.#changed(outputs, "remove", call);
  }

  async exportedNames(call: Call): Promise<ReadonlySet<string>> {
    return linesOf(await this.#run([targetsStep(this.#settings)], call), "targets");
  }

  /**
   * targetcli saves when it ends, unless its preferences say otherwise (auto_save_on_exit). With many targets saving takes longer
   * than all else, so it is not repeated.
   */
  #changed(outputs: Outputs, name: string, call: Call): TargetChange {
    const output = outputs.get(name);
    const saved = output?.stdout.includes("Configuration saved to") === true;
    return { parts: linesOf(outputs, "inspect"), output, save: async () => void (saved || (await this.#save(call))) };
  }

  async #save(call: Call): Promise<void> {
    await this.#run([this.#targetcli("save", saveText)], call);
  }

  #targetcli(name: string, stdin: string, secret: readonly string[] = []): Step {
    return targetcliStep(name, stdin, this.#settings.targetcli, secret);
  }

  #run(steps: readonly [Step, ...Step[]], call: Call): Promise<Outputs> {
    return this.#host.script({ steps }, call.signal);
  }
}

/** Saving now would lose what the host has not restored yet; and rtslib restores nothing where it finds a target. */
function refuseUnrestored(restored: ReadonlySet<string>): void {
  const missing = [...restored].flatMap(line => (line.startsWith("missing ") ? [line.slice(8)] : []));
  if (missing.length === 0) return;
  throw new CsiError(
    "unavailable",
    `the kernel of the host lacks targets that targetcli has saved: ${missing.join(", ").slice(0, 400)}; restore them (targetctl restore) or, where they are not needed, save what there is (targetcli saveconfig)`,
  );
}
