import { type Access, disk } from "../../../core/access.ts";
import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { type Finding, findingsOf, type VolumeFindings } from "../../../health/finding.ts";
import type { Argv, Output } from "../../../io/runner.ts";
import type { Outputs, Step, StorageHost } from "../../../io/script.ts";
import type { Context, VolumeSpec } from "../../driver.ts";
import { inUse } from "../../failure.ts";
import type { Notes, ShareProtocol } from "../../store.ts";
import { locked } from "../cli/steps.ts";
import type { ZfsVolume } from "../volume.ts";
import { bearsTag, checkedName, plainName, type TargetName, type TargetNaming, targetName } from "./names.ts";

/** A target, or subsystem, with one device. */
export interface ExportedTarget {
  /** IQN or NQN. */
  readonly whole: string;
  /** The name of the volume in it. */
  readonly backstore: string;
  /** Path of the zvol. */
  readonly device: string;
  /** What tells this zvol from every other one, also from a later one of the same name; empty when nobody knows. */
  readonly guid: string;
}

/** What makes targets on a host, and proves what it did. Each host has its targets for all who use it. */
export interface Targets {
  /**
   * Makes a target, or what an interrupted call left out of it. `standing`: it was made before, so that nothing is done when it
   * is there. Throws "failed-precondition" when the name is that of another device, "unavailable" when it does not get whole.
   */
  make(target: ExportedTarget, standing: boolean, call: Call): Promise<void>;
  /**
   * Removes a target with its device; success when there is none. Throws as `make`, "failed-precondition" while a node has a
   * session of it, with nothing changed, and "aborted" when it stays.
   */
  remove(target: ExportedTarget, call: Call): Promise<void>;
  /** The whole names of all targets that nodes can reach, in one round. Absent where that takes more. */
  exportedNames?(call: Call): Promise<ReadonlySet<string>>;
  /** Sees to it that the target shows a device that has at least `bytes` bytes now. Absent where it does by itself. */
  grown?(target: ExportedTarget, bytes: bigint, call: Call): Promise<void>;
}

/** What differs between the protocols. */
export interface TargetSettings {
  readonly protocol: "iscsi" | "nvmeof";
  /** The note that names a volume's target; democratic-csi reads it too. */
  readonly note: "iscsi_assets_name" | "nvmeof_assets_name";
  readonly naming: TargetNaming;
  /** The key of the volume context that holds the whole name. */
  readonly key: "iqn" | "nqn";
  /** How nodes reach every target, as the volume context says it; the values of a volume stay for its life. */
  readonly reach: Context;
  /** Where the zvols are devices; /dev/zvol but in tests. */
  readonly devices: string;
}

/** What the tools of targets take for one word. */
const oneWord = /^[A-Za-z0-9][A-Za-z0-9._:+-]*$/;

/** Zvols as targets, one target with one device each. */
export class TargetShare implements ShareProtocol<ZfsVolume> {
  readonly protocol: "iscsi" | "nvmeof";
  readonly access: Access = disk;
  readonly growsOnNode = true;
  readonly reach: Context;
  readonly #targets: Targets;
  readonly #settings: TargetSettings;

  constructor(targets: Targets, settings: TargetSettings) {
    this.protocol = settings.protocol;
    this.#targets = targets;
    this.#settings = settings;
    this.reach = settings.reach;
  }

  /**
   * The name is kept before anything of it is made, so that whatever happens the target can be found again. The target of a
   * volume that is complete is made again where its host has lost it.
   */
  async publish(
    asset: ZfsVolume,
    spec: VolumeSpec,
    keep: (notes: Notes) => Promise<ZfsVolume>,
    call: Call,
  ): Promise<Notes> {
    if (asset.finished) {
      await this.restore(asset, call);
      return {};
    }
    const { naming, note, key, reach } = this.#settings;
    const noted = asset.notes[note];
    const name = noted === undefined ? targetName(naming, asset, spec) : checkedName(naming, noted);
    if (noted === undefined) await keep({ [note]: name.backstore });
    await this.#targets.make(this.#target(asset, name), false, call);
    return { ...reach, [key]: name.whole };
  }

  context(asset: ZfsVolume): Context {
    const keys = [...Object.keys(this.#settings.reach), this.#settings.key];
    return Object.fromEntries(keys.flatMap(key => (asset.notes[key] === undefined ? [] : [[key, asset.notes[key]]])));
  }

  async withdraw(asset: ZfsVolume, call: Call): Promise<void> {
    await this.#targets.remove(this.#known(asset), call);
  }

  async resized(asset: ZfsVolume, call: Call): Promise<void> {
    await this.#targets.grown?.(this.#known(asset), asset.bytes, call);
  }

  async restore(asset: ZfsVolume, call: Call): Promise<void> {
    await this.#targets.make(this.#known(asset), true, call);
  }

  async look(assets: readonly ZfsVolume[], call: Call): Promise<VolumeFindings> {
    const exported = await this.#targets.exportedNames?.(call);
    if (!exported) return new Map();
    return findingsOf(
      assets.map(asset => {
        const name = this.#nameOf(asset);
        return [asset.id, name === undefined || exported.has(name) ? [] : [targetMissing(name)]] as const;
      }),
    );
  }

  /** Undefined for a name that no target can have. */
  #nameOf(asset: ZfsVolume): string | undefined {
    try {
      return this.#known(asset).whole;
    } catch (error) {
      if (error instanceof CsiError) return undefined;
      throw error;
    }
  }

  /** The target of a volume by what is noted with it; of one that notes nothing, as democratic-csi falls back. */
  #known(asset: ZfsVolume): ExportedTarget {
    const { naming, note, key } = this.#settings;
    const noted = asset.notes[note];
    const plain = plainName(naming, asset.id);
    const whole = asset.notes[key] ?? (noted === undefined ? plain.whole : `${naming.basename}:${noted}`);
    const name: TargetName = { backstore: noted ?? plain.backstore, whole };
    if (oneWord.test(name.backstore) && oneWord.test(name.whole)) return this.#target(asset, name);
    throw new CsiError(
      "failed-precondition",
      `${asset.dataset} names its target "${name.whole.slice(0, 250)}", which no target can be called; correct its property democratic-csi:${note}`,
    );
  }

  /** udev writes "+" for a blank (OpenZFS, zvol_id). */
  #target({ dataset, guid }: ZfsVolume, name: TargetName): ExportedTarget {
    return { ...name, device: `${this.#settings.devices}/${dataset.replaceAll(" ", "+")}`, guid };
  }
}

const targetMissing = (name: string): Finding => ({
  reason: "TargetMissing",
  message: `the host has no target ${name} that nodes can reach`,
});

/** Whether a name is somebody else's and nothing of `own` is there, so that there is nothing to undo. */
export const isForeign = (seen: ReadonlySet<string>, own: string): boolean =>
  !seen.has(own) && [...seen].some(each => each.startsWith("foreign "));

/** Names of targets are the whole host's: one that shows another device is somebody else's. `seen`: "foreign" and its path. */
export function refuseForeign({ backstore: asset, whole, device }: ExportedTarget, seen: ReadonlySet<string>): void {
  const foreign = [...seen].find(each => each.startsWith("foreign "));
  if (foreign === undefined) return;
  throw new CsiError(
    "failed-precondition",
    `"${asset}" (${whole}) is the name of another device, ${foreign.slice(8)}, not of ${device}; see namePrefix and nameSuffix`,
  );
}

/**
 * Throws "failed-precondition" for a target of this name that nothing proves to be the volume's: neither its device nor a name that
 * only this volume can have.
 */
export function refuseUnproved({ backstore: asset, whole, device, guid }: ExportedTarget, proved: boolean): void {
  if (proved || bearsTag(asset, guid)) return;
  throw new CsiError(
    "failed-precondition",
    `the host has ${whole} already, which does not lead to ${device}: csimux did not finish it or did not make it; remove it on the host if it is not needed`,
  );
}

/** Throws "failed-precondition" when a step that looks for sessions has found some; "unavailable" when it could not look. */
export function refuseSessions(target: ExportedTarget, outputs: Outputs, step: string): void {
  const output = outputs.get(step);
  if (output?.exitCode === sessionsFound) {
    const hosts = output.stdout.split("\n").filter(line => line !== "");
    throw inUse(`the target ${target.whole}`, [...new Set(hosts)]);
  }
  done(outputs, step);
}

/** The exit code of a step that found sessions and has left everything as it was. */
export const sessionsFound = 3;

/** Throws "unavailable" for a target that lacks something, with the line in which its tool says why, if it does. */
export function refuseLacking(target: ExportedTarget, lacking: readonly string[], said: Output | undefined): void {
  if (lacking.length === 0) return;
  const all = `${said?.stderr ?? ""}\n${said?.stdout ?? ""}`.split("\n");
  const line =
    all.find(each => /error|not |cannot|could|invalid|refused|no such/i.test(each)) ?? said?.stderr.split("\n")[0];
  throw new CsiError(
    "unavailable",
    `the target ${target.whole} lacks: ${lacking.join(", ")}; ${line?.slice(0, 300) || "see the targets of the host"}`,
  );
}

/** The last line of each answer about targets: an exit code of 0 does not prove that every line of it has arrived. */
export const lastLine = "end";

/** The lines of an answer about targets. Throws "unavailable" when the step failed, or when the answer does not end with `lastLine`. */
export function linesOf(outputs: Outputs, step: string): ReadonlySet<string> {
  const lines = done(outputs, step).stdout.split("\n");
  if (lines.pop() !== "" || lines.pop() !== lastLine)
    throw new CsiError(
      "unavailable",
      "the target cannot be looked at: a part of the answer is missing; repeat the call",
    );
  return new Set(lines);
}

/** The output of a step that has succeeded. Throws "unavailable". */
function done(outputs: Outputs, step: string): Output {
  const output = outputs.get(step);
  if (output?.exitCode === 0) return output;
  const failed = [...outputs.values()].find(each => each.exitCode !== 0);
  throw new CsiError(
    "unavailable",
    `the target cannot be looked at: ${failed?.stderr.split("\n")[0] ?? "no answer"}; repeat the call`,
  );
}

/** A step of these words, at least one of which is known. */
export const step = (name: string, words: readonly string[], more: Partial<Step> = {}): Step => {
  const [first = "sh", ...rest] = words;
  return { name, argv: [first, ...rest], ...more };
};

/** Waits up to ten seconds for a device, which udev makes a moment after the zvol. */
export const deviceStep = (device: string): Step =>
  step("device", [
    ...["sh", "-c", 'n=0; until [ -e "$1" ]; do n=$((n+1)); [ $n -lt 100 ] || exit 1; sleep 0.1; done', "sh"],
    device,
  ]);

/** Waits for the device of a target, before the lock of its tool is taken. Throws "unavailable" when it does not appear. */
export async function awaitDevice(host: StorageHost, { device }: ExportedTarget, call: Call): Promise<void> {
  const outputs = await host.script({ steps: [deviceStep(device)] }, call.signal);
  if (outputs.get("device")?.exitCode === 0) return;
  throw new CsiError("unavailable", `the device ${device} does not appear; repeat the call`);
}

/** A run of a tool of the host, alone; over its standard input, where secrets do not show. `tool` names the lock. */
export const aloneStep = (name: string, tool: string, argv: Argv, more: Partial<Step>): Step =>
  step(name, locked(tool, argv), { ...more, onFailure: "go-on" });
