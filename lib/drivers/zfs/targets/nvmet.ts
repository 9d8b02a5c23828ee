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

/**
 * The commands that make a subsystem with namespace 1 and link it to ports, as democratic-csi does (nvmetcli(8)); nvmetcli reports
 * what exists and continues.
 */
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
export class NvmetTool implements TargetTool {
  readonly name = "nvmetcli";
  readonly own = ["subsystem"] as const;
  readonly holder = "namespace";
  readonly proofs = { make: ["namespace"], remove: ["namespace"] };
  readonly complete: readonly string[];
  readonly #host: StorageHost;
  readonly #settings: NvmetHost;

  constructor(host: StorageHost, settings: NvmetHost) {
    this.#host = host;
    this.#settings = settings;
    this.complete = ["subsystem", "namespace", "enabled", ...settings.ports.map(port => `port ${port}`)];
  }

  async inspect(target: ExportedTarget, call: Call): Promise<TargetState> {
    const parts = linesOf(await this.#restored(inspectStep(target, this.#settings), call), "inspect");
    // Where nvmetcli has never run, there is nothing to save, so a failure does not count.
    return { parts, forget: async () => void (await this.#run([this.#save], call)) };
  }

  async make(target: ExportedTarget, _before: TargetState, call: Call): Promise<TargetChange> {
    const make = this.#nvmetcli("make", makeText(target, this.#settings));
    return changed(await this.#run([make, inspectStep(target, this.#settings), this.#save], call), "make");
  }

  async remove(target: ExportedTarget, _before: TargetState, call: Call): Promise<TargetChange> {
    const remove = this.#nvmetcli("remove", removeText(target));
    const close = closeStep(target, this.#settings);
    const outputs = await this.#run([close, remove, inspectStep(target, this.#settings), this.#save], call);
    refuseUnsettled(target, outputs);
    refuseSessions(target, outputs);
    return changed(outputs, "remove");
  }

  async exportedNames(call: Call): Promise<ReadonlySet<string>> {
    return linesOf(await this.#restored(subsystemsStep(this.#settings), call), "subsystems");
  }

  /** Runs a step that reads, once the host has restored its configuration. */
  async #restored(step: Step, call: Call): Promise<Outputs> {
    const { marker } = this.#settings;
    const outputs = await this.#run([markerStep(marker), step], call);
    if (outputs.get("marker")?.exitCode === 0) return outputs;
    throw new CsiError(
      "unavailable",
      `${marker} does not exist: the host has not restored its NVMe subsystems yet, and a change now would lose them`,
    );
  }

  #nvmetcli(name: string, stdin: string): Step {
    return toolStep(name, this.name, this.#settings.nvmetcli, { stdin });
  }

  get #save(): Step {
    const { nvmetcli, configPath } = this.#settings;
    return toolStep("save", this.name, [...nvmetcli, "save", ...(configPath === undefined ? [] : [configPath])]);
  }

  #run(steps: readonly [Step, ...Step[]], call: Call): Promise<Outputs> {
    return this.#host.script({ steps }, call.signal);
  }
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
