import { CsiError } from "../../core/errors.ts";
import type { VolumeSpec } from "../driver.ts";
import { rendered } from "../template.ts";

/** How targets are named after their volumes: as the blocks `iscsi:` and `nvmeof:` say. */
export interface Naming {
  readonly basename: string;
  readonly nameTemplate?: string | undefined;
  readonly namePrefix: string;
  readonly nameSuffix: string;
  /** What the part behind the basename may be. */
  readonly fits: { readonly shape: RegExp; readonly help: string };
}

/** iSCSI takes letters, digits, ".", ":" and "-" (RFC 3722), and the target of Linux no "_". */
export const iscsiNames: Naming["fits"] = {
  shape: /^[a-z0-9][a-z0-9.:-]*$/,
  help: 'letters, digits, ".", ":" and "-"',
};

/** Any text would do (NVMe Base Specification, "NVMe Qualified Names"), but nodes and tools are to read it as one word. */
export const nvmeNames: Naming["fits"] = {
  shape: /^[a-z0-9][a-z0-9._:-]*$/,
  help: 'letters, digits, ".", ":", "-" and "_"',
};

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

/** The name of a new volume's target, in lower case, which initiators of Windows need. Throws "invalid-argument" for one that cannot be. */
export function targetName(naming: Naming, id: string, spec: VolumeSpec): TargetName {
  const { nameTemplate, namePrefix, nameSuffix } = naming;
  const { name, parameters } = spec;
  const middle = nameTemplate ? rendered(nameTemplate, { name, parameters }) : id;
  const asset = `${namePrefix}${middle}${nameSuffix}`.toLowerCase();
  return checkedName(naming, asset);
}

/** The whole name of an asset. Throws as `targetName`. */
export function checkedName({ basename, fits }: Naming, asset: string): TargetName {
  const whole = `${basename}:${asset}`;
  if (fits.shape.test(asset) && whole.length <= longest) return { asset, whole };
  throw new CsiError(
    "invalid-argument",
    `"${whole.slice(0, 250)}" cannot name a target: it may hold ${fits.help}, ${longest} at most; see nameTemplate`,
  );
}
