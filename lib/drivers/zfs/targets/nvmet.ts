import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { Argv } from "../../../io/runner.ts";
import type { Outputs, Step, StorageHost } from "../../../io/script.ts";
import { type ExportedTarget, linesOf, refuseSessions, type TargetChange, type TargetTool, toolStep } from "./guard.ts";
import { uuidOf } from "./names.ts";
import { closeStep, inspectStep, markerStep, type NvmetPaths, refuseUnsettled, subsystemsStep } from "./nvmet-state.ts";

/** How the NVMe target of a kernel is used. */
export interface NvmetHost extends NvmetPaths {
  /** How nvmetcli is called. */
  readonly nvmetcli: Argv;
  /** Where it saves its configuration; undefined: its own default. */
  readonly configPath: string | undefined;
  /** A file that exists once the host has restored its configuration; undefined: unknown when that is. */
  readonly marker: string | undefined;
  readonly attributes: Readonly<Record<string, string>>;
  /** Ports that were made beforehand. */
  readonly ports: readonly string[];
}

/** Makes a subsystem with namespace 1 on ports, as democratic-csi does (nvmetcli(8)); what exists is reported, no error. */
const makeText = ({ qualifiedName, device, guid }: ExportedTarget, { attributes, ports }: NvmetHost): string =>
  [
    "cd /subsystems",
    `create ${qualifiedName}`,
    `cd /subsystems/${qualifiedName}`,
    ...Object.entries(attributes).map(([key, value]) => `set attr ${key}=${value}`),
    `cd /subsystems/${qualifiedName}/namespaces`,
    "create 1",
    `cd /subsystems/${qualifiedName}/namespaces/1`,
    `set device path=${device}`,
    ...(guid === "" ? [] : [`set device uuid=${uuidOf(guid)}`]),
    "enable",
    ...ports.flatMap(port => [`cd /ports/${port}/subsystems`, `create ${qualifiedName}`]),
    "exit",
    "",
  ].join("\n");

const removeText = ({ qualifiedName }: ExportedTarget): string =>
  ["cd /subsystems", `delete ${qualifiedName}`, "exit", ""].join("\n");

/** Makes subsystems of the kernel's NVMe target with nvmetcli, whose exit code is always 0; what the kernel shows proves them. */
export function nvmetTool(host: StorageHost, settings: NvmetHost): TargetTool {
  const { nvmetcli, configPath, marker, ports } = settings;
  const name = "nvmetcli";
  const cliStep = (step: string, stdin: string): Step => toolStep(step, name, nvmetcli, { stdin });
  const save = toolStep("save", name, [...nvmetcli, "save", ...(configPath === undefined ? [] : [configPath])]);
  const run = (steps: readonly [Step, ...Step[]], call: Call): Promise<Outputs> => host.script({ steps }, call.signal);

  /** Runs a step that reads, once the host has restored its configuration. */
  async function restored(step: Step, call: Call): Promise<Outputs> {
    const outputs = await run([markerStep(marker), step], call);
    if (outputs.get("marker")?.exitCode === 0) return outputs;
    throw new CsiError(
      "unavailable",
      `${marker} does not exist: the host has not restored its NVMe subsystems yet, and a change now would lose them`,
    );
  }

  return {
    name,
    own: ["subsystem"],
    holder: "namespace",
    proofs: { make: ["namespace"], remove: ["namespace"] },
    complete: ["subsystem", "namespace", "enabled", ...ports.map(port => `port ${port}`)],
    async inspect(target, call) {
      const parts = linesOf(await restored(inspectStep(target, settings), call), "inspect");
      // Where nvmetcli has never run, there is nothing to save, so a failure does not count.
      return { parts, forget: async () => void (await run([save], call)) };
    },
    async make(target, _before, call) {
      const make = cliStep("make", makeText(target, settings));
      return changed(await run([make, inspectStep(target, settings), save], call), "make");
    },
    async remove(target, _before, call) {
      const remove = cliStep("remove", removeText(target));
      const outputs = await run([closeStep(target, settings), remove, inspectStep(target, settings), save], call);
      refuseUnsettled(target, outputs);
      refuseSessions(target, outputs);
      return changed(outputs, "remove");
    },
    exportedNames: async call => linesOf(await restored(subsystemsStep(settings), call), "subsystems"),
  };
}

/** `name`: the step of the change. Saved by the step after it, because what is not saved is gone when the host restarts. */
const changed = (outputs: Outputs, name: string): TargetChange => ({
  parts: linesOf(outputs, "inspect"),
  output: outputs.get(name),
  async save() {
    const saved = outputs.get("save");
    if (saved?.exitCode === 0) return;
    const line = saved?.stderr.trim().split("\n").at(-1) ?? "";
    throw new CsiError("unavailable", `nvmetcli did not save its configuration: ${line.slice(0, 300)}`);
  },
});
