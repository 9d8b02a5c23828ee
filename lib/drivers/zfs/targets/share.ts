import { disk } from "../../../core/access.ts";
import { CsiError } from "../../../core/errors.ts";
import { findingsOf } from "../../../health/finding.ts";
import type { Context } from "../../driver.ts";
import type { ShareProtocol } from "../../store.ts";
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
export function targetShare(guard: TargetGuard, settings: TargetSettings): ShareProtocol<ZfsVolume> {
  const { protocol, naming, note, key, reach, devices } = settings;
  const { tool } = guard;

  /** udev writes "+" for a blank (OpenZFS, zvol_id). */
  const targetOf = ({ dataset, guid }: ZfsVolume, name: TargetName): ExportedTarget => {
    return { ...name, device: `${devices}/${dataset.replaceAll(" ", "+")}`, guid };
  };

  /** The names of a volume's target by its notes; without notes what democratic-csi falls back to. */
  const namesOf = ({ id, notes }: ZfsVolume): TargetName => {
    const plain = plainName(naming, id);
    const noted = notes[note];
    const qualifiedName = notes[key] ?? (noted === undefined ? plain.qualifiedName : `${naming.basename}:${noted}`);
    return { backstore: noted ?? plain.backstore, qualifiedName };
  };

  const isPossible = (name: TargetName): boolean => oneWord.test(name.backstore) && oneWord.test(name.qualifiedName);

  const noted = (volume: ZfsVolume): ExportedTarget => {
    const name = namesOf(volume);
    if (isPossible(name)) return targetOf(volume, name);
    throw new CsiError(
      "failed-precondition",
      `${volume.dataset} names its target "${name.qualifiedName.slice(0, 250)}", which no target can be called; correct its property democratic-csi:${note}`,
    );
  };

  return {
    ...{ protocol, access: disk, growsOnNode: true, reach },
    /** Keeps the name before the target is made, so that the target can be found again whatever happens. */
    async publish(volume, spec, keep, call) {
      if (volume.finished) {
        await guard.make(noted(volume), true, call);
        return {};
      }
      const kept = volume.notes[note];
      const name = kept === undefined ? targetName(naming, volume, spec) : checkedName(naming, kept);
      if (kept === undefined) await keep({ [note]: name.backstore });
      await guard.make(targetOf(volume, name), false, call);
      return { ...reach, [key]: name.qualifiedName };
    },
    context({ notes }) {
      const keys = [...Object.keys(reach), key];
      return Object.fromEntries(keys.flatMap(each => (notes[each] === undefined ? [] : [[each, notes[each]]])));
    },
    withdraw: (volume, call) => guard.remove(noted(volume), call),
    async resized(volume, call) {
      if (tool.grow) await guard.alone(call, async () => tool.grow?.(noted(volume), volume.bytes, call));
    },
    restore: (volume, call) => guard.make(noted(volume), true, call),
    async look(volumes, call) {
      const exported = await tool.exportedNames?.(call);
      if (!exported) return new Map();
      return findingsOf(
        volumes.map(volume => {
          const name = namesOf(volume);
          const message = `the host has no target ${name.qualifiedName} that nodes can reach`;
          const missing = isPossible(name) && !exported.has(name.qualifiedName);
          return [volume.id, missing ? [{ reason: "TargetMissing", message }] : []] as const;
        }),
      );
    },
  };
}
