import { disk } from "../../../core/access.ts";
import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { findingsOf, type VolumeFindings } from "../../../health/finding.ts";
import type { Context, VolumeSpec } from "../../driver.ts";
import type { Notes, ShareProtocol } from "../../store.ts";
import { noteProperty } from "../properties.ts";
import type { ZfsVolume } from "../volume.ts";
import type { ExportedTarget, TargetExporter } from "./exporter.ts";
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

/** Zvols as targets, one target with one device each. A process may have thousands of such shares, so the exporter is made for each use. */
export class TargetShare implements ShareProtocol<ZfsVolume> {
  readonly access = disk;
  readonly growsOnNode = true;
  readonly #settings: TargetSettings;
  readonly #exporter: () => TargetExporter;

  constructor(settings: TargetSettings, exporter: () => TargetExporter) {
    this.#settings = settings;
    this.#exporter = exporter;
  }

  get protocol(): TargetSettings["protocol"] {
    return this.#settings.protocol;
  }

  get reach(): Context {
    return this.#settings.reach;
  }

  /** Notes the name before the target is made, so that the target can be found again whatever happens. */
  async publish(volume: ZfsVolume, spec: VolumeSpec, _keep: unknown, call: Call): Promise<Notes> {
    if (volume.finished) {
      await this.restore(volume, call);
      return {};
    }
    const { naming, note, key, reach } = this.#settings;
    const kept = volume.notes[note];
    const name = kept === undefined ? targetName(naming, volume, spec) : checkedName(naming, kept);
    const noted = kept === undefined ? { [note]: name.backstore } : {};
    const values = Object.fromEntries(Object.entries(noted).map(([each, text]) => [noteProperty(each), text]));
    const plain = targetName(naming, { id: volume.id, guid: "" }, spec);
    const unnoted = plain.qualifiedName === name.qualifiedName ? undefined : plain;
    await this.#exporter().make({ ...this.#targetOf(volume, name), unnoted }, false, call, values);
    return { ...noted, ...reach, [key]: name.qualifiedName };
  }

  context({ notes }: ZfsVolume): Context {
    const { key, reach } = this.#settings;
    const keys = [...Object.keys(reach), key];
    return Object.fromEntries(keys.flatMap(each => (notes[each] === undefined ? [] : [[each, notes[each]]])));
  }

  async withdraw(volume: ZfsVolume, call: Call): Promise<void> {
    await this.#exporter().remove(this.#noted(volume), call);
  }

  /** Of the targets that csimux makes, only those of LIO show their sessions on every kernel. */
  get unused(): ShareProtocol<ZfsVolume>["unused"] {
    if (this.#settings.protocol !== "iscsi") return undefined;
    return async (volume, call) => {
      const exporter = this.#exporter();
      if (!exporter.unused) throw new CsiError("failed-precondition", "the host does not tell who uses its targets");
      await exporter.unused(this.#noted(volume), call);
    };
  }

  async resized(volume: ZfsVolume, call: Call): Promise<void> {
    await this.#exporter().grow?.(this.#noted(volume), volume.bytes, call);
  }

  restore(volume: ZfsVolume, call: Call): Promise<void> {
    return this.#exporter().make(this.#noted(volume), true, call);
  }

  async look(volumes: readonly ZfsVolume[], call: Call): Promise<VolumeFindings> {
    const named = volumes
      .map(volume => ({ volume, name: this.#namesOf(volume) }))
      .filter(({ name }) => isPossible(name));
    const targets = named.map(({ volume, name }) => this.#targetOf(volume, name));
    const lacking = await this.#exporter().lacking?.(targets, call);
    if (!lacking) return new Map();
    return findingsOf(
      named.map(({ volume: { id }, name: { qualifiedName } }) => {
        const parts = lacking.get(qualifiedName) ?? [];
        const lacks = parts.some(part => /^(?:target|subsystem)$/.test(part))
          ? ""
          : ` completely: it lacks ${parts.join(", ")}`;
        const message = `the host has no target ${qualifiedName} that nodes can reach${lacks}`;
        return [id, parts.length > 0 ? [{ reason: "TargetMissing", message }] : []] as const;
      }),
    );
  }

  /** udev writes "+" for a blank (OpenZFS, zvol_id). */
  #targetOf({ dataset, guid, isReceived }: ZfsVolume, name: TargetName): ExportedTarget {
    return { ...name, dataset, device: `${this.#settings.devices}/${dataset.replaceAll(" ", "+")}`, guid, isReceived };
  }

  /** The names of a volume's target by its notes; without notes what democratic-csi falls back to. */
  #namesOf({ id, notes }: ZfsVolume): TargetName {
    const { naming, note, key } = this.#settings;
    const plain = plainName(naming, id);
    const noted = notes[note];
    const qualifiedName = notes[key] ?? (noted === undefined ? plain.qualifiedName : `${naming.basename}:${noted}`);
    return { backstore: noted ?? plain.backstore, qualifiedName };
  }

  #noted(volume: ZfsVolume): ExportedTarget {
    const name = this.#namesOf(volume);
    if (isPossible(name)) return this.#targetOf(volume, name);
    throw new CsiError(
      "failed-precondition",
      `${volume.dataset} names its target "${name.qualifiedName.slice(0, 250)}", which no target can be called; correct its property democratic-csi:${this.#settings.note}`,
    );
  }
}

const isPossible = (name: TargetName): boolean => oneWord.test(name.backstore) && oneWord.test(name.qualifiedName);
