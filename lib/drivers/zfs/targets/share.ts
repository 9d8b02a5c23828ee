import { type Access, disk } from "../../../core/access.ts";
import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { findingsOf, type VolumeFindings } from "../../../health/finding.ts";
import type { Context, VolumeSpec } from "../../driver.ts";
import type { Notes, ShareProtocol } from "../../store.ts";
import type { ZfsVolume } from "../volume.ts";
import type { ExportedTarget, TargetGuard } from "./guard.ts";
import { checkedName, plainName, type TargetName, type TargetNaming, targetName } from "./names.ts";

/** What differs between the protocols. */
export interface TargetSettings {
  readonly protocol: "iscsi" | "nvmeof";
  /** The note that names a volume's target; democratic-csi reads it too. */
  readonly note: "iscsi_assets_name" | "nvmeof_assets_name";
  readonly naming: TargetNaming;
  /** The key of the volume context that holds the qualified name. */
  readonly key: "iqn" | "nqn";
  /** How nodes reach every target, as in the volume context; the values of a volume never change. */
  readonly reach: Context;
  /** Where the zvols are devices; /dev/zvol except in tests. */
  readonly devices: string;
}

/** What the tools of targets accept as one word. */
const oneWord = /^[A-Za-z0-9][A-Za-z0-9._:+-]*$/;

/** Zvols as targets, one target with one device each. */
export class TargetShare implements ShareProtocol<ZfsVolume> {
  readonly protocol: "iscsi" | "nvmeof";
  readonly access: Access = disk;
  readonly growsOnNode = true;
  readonly reach: Context;
  readonly #guard: TargetGuard;
  readonly #settings: TargetSettings;

  constructor(guard: TargetGuard, settings: TargetSettings) {
    this.protocol = settings.protocol;
    this.#guard = guard;
    this.#settings = settings;
    this.reach = settings.reach;
  }

  /** Keeps the name before the target is made, so that the target can be found again whatever happens. */
  async publish(
    volume: ZfsVolume,
    spec: VolumeSpec,
    keep: (notes: Notes) => Promise<ZfsVolume>,
    call: Call,
  ): Promise<Notes> {
    if (volume.finished) {
      await this.restore(volume, call);
      return {};
    }
    const { naming, note, key, reach } = this.#settings;
    const noted = volume.notes[note];
    const name = noted === undefined ? targetName(naming, volume, spec) : checkedName(naming, noted);
    if (noted === undefined) await keep({ [note]: name.backstore });
    await this.#guard.make(this.#target(volume, name), false, call);
    return { ...reach, [key]: name.qualifiedName };
  }

  context({ notes }: ZfsVolume): Context {
    const keys = [...Object.keys(this.#settings.reach), this.#settings.key];
    return Object.fromEntries(keys.flatMap(key => (notes[key] === undefined ? [] : [[key, notes[key]]])));
  }

  async withdraw(volume: ZfsVolume, call: Call): Promise<void> {
    await this.#guard.remove(this.#noted(volume), call);
  }

  async resized(volume: ZfsVolume, call: Call): Promise<void> {
    const { tool } = this.#guard;
    if (tool.grow) await this.#guard.alone(call, async () => tool.grow?.(this.#noted(volume), volume.bytes, call));
  }

  async restore(volume: ZfsVolume, call: Call): Promise<void> {
    await this.#guard.make(this.#noted(volume), true, call);
  }

  async look(volumes: readonly ZfsVolume[], call: Call): Promise<VolumeFindings> {
    const exported = await this.#guard.tool.exportedNames?.(call);
    if (!exported) return new Map();
    return findingsOf(
      volumes.map(volume => {
        const name = this.#nameOf(volume);
        const message = `the host has no target ${name} that nodes can reach`;
        const missing = name !== undefined && !exported.has(name);
        return [volume.id, missing ? [{ reason: "TargetMissing", message }] : []] as const;
      }),
    );
  }

  /** Undefined for a name that no target can have. */
  #nameOf(volume: ZfsVolume): string | undefined {
    try {
      return this.#noted(volume).qualifiedName;
    } catch (error) {
      if (error instanceof CsiError) return undefined;
      throw error;
    }
  }

  /** The target of a volume by its notes; without notes by the name that democratic-csi falls back to. */
  #noted(volume: ZfsVolume): ExportedTarget {
    const { naming, note, key } = this.#settings;
    const noted = volume.notes[note];
    const plain = plainName(naming, volume.id);
    const qualifiedName =
      volume.notes[key] ?? (noted === undefined ? plain.qualifiedName : `${naming.basename}:${noted}`);
    const name: TargetName = { backstore: noted ?? plain.backstore, qualifiedName };
    if (oneWord.test(name.backstore) && oneWord.test(qualifiedName)) return this.#target(volume, name);
    throw new CsiError(
      "failed-precondition",
      `${volume.dataset} names its target "${qualifiedName.slice(0, 250)}", which no target can be called; correct its property democratic-csi:${note}`,
    );
  }

  /** udev writes "+" for a blank (OpenZFS, zvol_id). */
  #target({ dataset, guid }: ZfsVolume, name: TargetName): ExportedTarget {
    return { ...name, device: `${this.#settings.devices}/${dataset.replaceAll(" ", "+")}`, guid };
  }
}
