import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { Argv } from "../../../io/runner.ts";
import type { Outputs, Step, StorageHost } from "../../../io/script.ts";
import { uuidOf } from "./names.ts";
import {
  closeStep,
  inspectStep,
  markerStep,
  type NvmetPaths,
  refuseUnsettled,
  subsystemsStep,
  wholeSubsystem,
} from "./nvmet-state.ts";
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

/**
 * What nvmetcli(8) reads to make a subsystem with namespace 1 and to link it to ports, as democratic-csi has it. What is there
 * already it reports and goes on.
 */
export const makeText = (
  { whole, device, guid }: ExportedTarget,
  attributes: Readonly<Record<string, string>>,
  ports: readonly string[],
): string =>
  [
    "cd /subsystems",
    `create ${whole}`,
    `cd /subsystems/${whole}`,
    ...Object.entries(attributes).map(([key, value]) => `set attr ${key}=${value}`),
    `cd /subsystems/${whole}/namespaces`,
    "create 1",
    `cd /subsystems/${whole}/namespaces/1`,
    `set device path=${device}`,
    ...(guid === "" ? [] : [`set device uuid=${uuidOf(guid)}`]),
    "enable",
    ...ports.flatMap(port => [`cd /ports/${port}/subsystems`, `create ${whole}`]),
    "exit",
    "",
  ].join("\n");

/** What it reads to remove one that no port leads to any more. */
export const removeText = ({ whole }: ExportedTarget): string =>
  ["cd /subsystems", `delete ${whole}`, "exit", ""].join("\n");

/** A run of nvmetcli over its standard input; it ends with 0 whatever happened. */
export const nvmetcliStep = (name: string, stdin: string, nvmetcli: Argv): Step =>
  aloneStep(name, "nvmetcli", nvmetcli, { stdin });

/** Has nvmetcli save what there is, so that it is there after the host has started anew. */
export const saveStep = (nvmetcli: Argv, path: string | undefined): Step =>
  aloneStep("save", "nvmetcli", [...nvmetcli, "save", ...(path === undefined ? [] : [path])], {});

/** How the NVMe target of a kernel is used. */
export interface NvmetHost extends NvmetPaths {
  /** How nvmetcli is called. */
  readonly nvmetcli: Argv;
  /** Where it saves its configuration; undefined: where it does by itself. */
  readonly configPath: string | undefined;
  /** A file that is there once the host has restored it; undefined: nobody says when that is. */
  readonly marker: string | undefined;
  readonly attributes: Readonly<Record<string, string>>;
  /** Ports that were made beforehand. */
  readonly ports: readonly string[];
}

/** Subsystems of the kernel's NVMe target, made through nvmetcli and proved by what the kernel shows. */
export class NvmetTargets implements Targets {
  readonly #host: StorageHost;
  readonly #settings: NvmetHost;

  constructor(host: StorageHost, settings: NvmetHost) {
    this.#host = host;
    this.#settings = settings;
  }

  async make(target: ExportedTarget, standing: boolean, call: Call): Promise<void> {
    await awaitDevice(this.#host, target, call);
    await this.#host.exclusive("nvmetcli", call.signal, () => this.#make(target, standing, call));
  }

  remove(target: ExportedTarget, call: Call): Promise<void> {
    return this.#host.exclusive("nvmetcli", call.signal, () => this.#remove(target, call));
  }

  async exportedNames(call: Call): Promise<ReadonlySet<string>> {
    return linesOf(await this.#look([subsystemsStep(this.#settings)], call), "subsystems");
  }

  async #make(target: ExportedTarget, standing: boolean, call: Call): Promise<void> {
    const { nvmetcli, attributes, ports } = this.#settings;
    const before = linesOf(await this.#look([inspectStep("before", target, this.#settings)], call), "before");
    refuseForeign(target, before);
    const whole = wholeSubsystem(ports);
    if (standing && whole.every(each => before.has(each))) return;
    if (before.has("subsystem")) refuseUnproved(target, standing || before.has("namespace"));
    const outputs = await this.#host.script(
      {
        steps: [
          nvmetcliStep("make", makeText(target, attributes, ports), nvmetcli),
          inspectStep("after", target, this.#settings),
          saveStep(nvmetcli, this.#settings.configPath),
        ],
      },
      call.signal,
    );
    const after = linesOf(outputs, "after");
    const lacking = whole.filter(each => !after.has(each));
    refuseLacking(target, lacking, outputs.get("make"));
    refuseUnsaved(outputs);
  }

  async #remove(target: ExportedTarget, call: Call): Promise<void> {
    const { nvmetcli, configPath } = this.#settings;
    const before = linesOf(await this.#look([inspectStep("before", target, this.#settings)], call), "before");
    // Perhaps an earlier call has removed it and could not save that; where nvmetcli was never at work, nothing has to be saved.
    if (!before.has("subsystem"))
      return void (await this.#host.script({ steps: [saveStep(nvmetcli, configPath)] }, call.signal));
    if (isForeign(before, "namespace")) return;
    refuseForeign(target, before);
    refuseUnproved(target, before.has("namespace"));
    const outputs = await this.#host.script(
      {
        steps: [
          closeStep(target, this.#settings),
          nvmetcliStep("remove", removeText(target), nvmetcli),
          inspectStep("after", target, this.#settings),
          saveStep(nvmetcli, configPath),
        ],
      },
      call.signal,
    );
    refuseUnsettled(target, outputs);
    refuseSessions(target, outputs, "close");
    if (linesOf(outputs, "after").has("subsystem"))
      throw new CsiError("aborted", `nvmetcli did not remove the subsystem ${target.whole}; repeat the call`);
    refuseUnsaved(outputs);
  }

  /** Looks, once the host has restored its configuration. */
  async #look(steps: readonly Step[], call: Call): Promise<Outputs> {
    const { marker } = this.#settings;
    const outputs = await this.#host.script({ steps: [markerStep(marker), ...steps] }, call.signal);
    if (outputs.get("marker")?.exitCode === 0) return outputs;
    throw new CsiError(
      "unavailable",
      `${marker} is not there: the host has not restored its NVMe subsystems yet, and they would be lost; repeat the call`,
    );
  }
}

/** What is not saved is gone when the host starts anew. */
function refuseUnsaved(outputs: Outputs): void {
  const save = outputs.get("save");
  if (save?.exitCode === 0) return;
  const line = save?.stderr.trim().split("\n").at(-1) ?? "";
  throw new CsiError("unavailable", `nvmetcli did not save its configuration: ${line.slice(0, 300)}; repeat the call`);
}
