import { CsiError } from "../../core/errors.ts";
import type { VolumeSpec } from "../driver.ts";
import { rendered } from "../template.ts";

/** How targets are named after their volumes: as the blocks `iscsi:` and `nvmeof:` say. */
export interface Naming {
  readonly basename: string;
  readonly nameTemplate: string | undefined;
  readonly namePrefix: string;
  readonly nameSuffix: string;
}

/** The longest name of a target or subsystem in bytes (RFC 3720, 3.2.6.1; NVMe Base Specification, "NVMe Qualified Names"). */
const longest = 223;

/** The names of one volume's target: of the backing device, and of the whole. */
export interface TargetName {
  readonly asset: string;
  readonly whole: string;
}

/** The name without a template: what democratic-csi falls back to for volumes that do not tell theirs. */
export const plainName = ({ basename, namePrefix, nameSuffix }: Naming, id: string): TargetName => {
  const asset = `${namePrefix}${id}${nameSuffix}`.toLowerCase();
  return { asset, whole: `${basename}:${asset}` };
};

/**
 * The name of a new volume's target, in lower case, which initiators of Windows need. Throws "invalid-argument" for one that
 * cannot be: iSCSI takes letters, digits, ".", ":" and "-" (RFC 3722), and the target of Linux no "_".
 */
export function targetName(naming: Naming, id: string, spec: VolumeSpec): TargetName {
  const { basename, nameTemplate, namePrefix, nameSuffix } = naming;
  const { name, parameters } = spec;
  const middle = nameTemplate ? rendered(nameTemplate, { name, parameters }) : id;
  const asset = `${namePrefix}${middle}${nameSuffix}`.toLowerCase();
  return checkedName(basename, asset);
}

/** The whole name of an asset. Throws as `targetName`. */
export function checkedName(basename: string, asset: string): TargetName {
  const whole = `${basename}:${asset}`;
  if (/^[a-z0-9][a-z0-9.:-]*$/.test(asset) && whole.length <= longest) return { asset, whole };
  throw new CsiError(
    "invalid-argument",
    `"${whole.slice(0, 250)}" cannot name a target: it may hold letters, digits, ".", ":" and "-", ${longest} at most; see nameTemplate`,
  );
}
