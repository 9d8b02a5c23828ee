import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { Argv } from "../../../io/runner.ts";
import type { Outputs, Step, StorageHost } from "../../../io/script.ts";
import { type ExportedTarget, linesOf, refuseSessions, type TargetChange, type TargetTool, toolStep } from "./guard.ts";
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
export function lioTool(host: StorageHost, settings: LioHost): TargetTool {
  const { auth, targetcli } = settings;
  const run = (steps: readonly [Step, ...Step[]], call: Call): Promise<Outputs> => host.script({ steps }, call.signal);
  const save = async (call: Call): Promise<void> => {
    await run([targetcliStep("save", saveText, targetcli, [])], call);
  };
  /** targetcli saves when it ends, unless told otherwise (auto_save_on_exit); with many targets that is slow, so not twice. */
  const changed = (outputs: Outputs, name: string, call: Call): TargetChange => {
    const output = outputs.get(name);
    const saved = output?.stdout.includes("Configuration saved to") === true;
    return { parts: linesOf(outputs, "inspect"), output, save: async () => void (saved || (await save(call))) };
  };
  return {
    name: "targetcli",
    own: ["target", "backstore"],
    holder: "backstore",
    proofs: { make: ["backstore"], remove: ["backstore", "lun"] },
    complete: ["backstore", "target", "enabled", "portal", "lun"],
    async inspect(target, call) {
      const outputs = await run([inspectStep(target, settings), restoredStep(target, settings)], call);
      return {
        parts: linesOf(outputs, "inspect"),
        refuseChange: () => refuseUnrestored(linesOf(outputs, "restored")),
        // A target that the kernel no longer has may still be saved, and would be back after a restart of the host.
        forget: async () => {
          const restored = linesOf(outputs, "restored");
          if (!restored.has("own")) return;
          refuseUnrestored(restored);
          await save(call);
        },
      };
    },
    async make(target, { parts }, call) {
      const text = makeText(target, settings, parts.has("target") && !parts.has("portal"));
      const make = targetcliStep("make", text, targetcli, Object.values(auth));
      return changed(await run([make, inspectStep(target, settings)], call), "make", call);
    },
    async remove(target, _before, call) {
      const remove = targetcliStep("remove", removeText(target), targetcli, []);
      const outputs = await run([closeStep(target, settings), remove, inspectStep(target, settings)], call);
      refuseSessions(target, outputs);
      return changed(outputs, "remove", call);
    },
    exportedNames: async call => linesOf(await run([targetsStep(settings)], call), "targets"),
  };
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
