import { createHash } from "node:crypto";
import { CsiError } from "../../../core/errors.ts";
import type { VolumeSpec } from "../../driver.ts";
import { rendered } from "../../template.ts";

/** How targets are named after their volumes: as the blocks `iscsi:` and `nvmeof:` say. */
export interface TargetNaming {
  readonly basename: string;
  readonly nameTemplate?: string | undefined;
  readonly namePrefix: string;
  readonly nameSuffix: string;
  /** What the part behind the basename may be. */
  readonly fits: { readonly shape: RegExp; readonly help: string };
}

/** iSCSI takes letters, digits, ".", ":" and "-" (RFC 3722), and the target of Linux no "_". */
export const iscsiNames: TargetNaming["fits"] = {
  shape: /^[a-z0-9][a-z0-9.:-]*$/,
  help: 'letters, digits, ".", ":" and "-"',
};

/** Any text would do (NVMe Base Specification, "NVMe Qualified Names"), but nodes and tools are to read it as one word. */
export const nvmeNames: TargetNaming["fits"] = {
  shape: /^[a-z0-9][a-z0-9._:-]*$/,
  help: 'letters, digits, ".", ":", "-" and "_"',
};

/** The longest name of a target or subsystem in bytes (RFC 3720, 3.2.6.1; NVMe Base Specification, "NVMe Qualified Names"). */
const longest = 223;

/** The names of one volume's target: of the backing device, and of the whole. */
export interface TargetName {
  readonly backstore: string;
  readonly whole: string;
}

/** The name without a template: what democratic-csi falls back to for volumes that do not tell theirs. */
export const plainName = ({ basename, namePrefix, nameSuffix }: TargetNaming, id: string): TargetName => {
  const asset = `${namePrefix}${id}${nameSuffix}`.toLowerCase();
  return { backstore: asset, whole: `${basename}:${asset}` };
};

/** Separates the tag from the name; see tagOf. */
const tagLength = 8;

/**
 * Tells a zvol from every later one of the same name, in the name of its target: a node that still has a session of a deleted
 * volume finds no target to log in to again, where it would otherwise write into the volume that was made in its place. It
 * follows from the guid of the zvol, so that a repeated call finds the same name. Empty when the guid is not known.
 */
export const tagOf = (guid: string): string =>
  guid === "" ? "" : createHash("sha256").update(`csimux target ${guid}`).digest("hex").slice(0, tagLength);

/** Whether the name of a target can only be that of the volume with this guid. */
export const bearsTag = (asset: string, guid: string): boolean => guid !== "" && asset.includes(`-${tagOf(guid)}`);

/**
 * The name of a new volume's target, in lower case, which initiators of Windows need. What would be too long with the tag is cut.
 * Throws "invalid-argument" for a name that cannot be.
 */
export function targetName(
  naming: TargetNaming,
  { id, guid }: { id: string; guid: string },
  spec: VolumeSpec,
): TargetName {
  const { basename, nameTemplate, namePrefix, nameSuffix } = naming;
  const { name, parameters } = spec;
  const middle = (nameTemplate ? rendered(nameTemplate, { name, parameters }) : id).toLowerCase();
  const around = [namePrefix.toLowerCase(), nameSuffix.toLowerCase()] as const;
  const plain = checkedName(naming, around.join(middle));
  const tag = tagOf(guid);
  if (tag === "") return plain;
  const room = longest - basename.length - 1 - around.join("").length - tag.length - 1;
  return checkedName(naming, around.join(`${middle.slice(0, Math.max(room, 0))}-${tag}`));
}

/** The whole name of an asset. Throws as `targetName`. */
export function checkedName({ basename, fits }: TargetNaming, asset: string): TargetName {
  const whole = `${basename}:${asset}`;
  if (fits.shape.test(asset) && whole.length <= longest) return { backstore: asset, whole };
  throw new CsiError(
    "invalid-argument",
    `"${whole.slice(0, 250)}" cannot name a target: it may hold ${fits.help}, ${longest} at most; see nameTemplate`,
  );
}

/**
 * The UUID of a namespace, and the serial of a backstore (RFC 9562, version 8). It follows from the zvol alone: nodes give a disk up
 * that comes back with another one after its host has lost its configuration.
 */
export function uuidOf(guid: string): string {
  const bytes = createHash("sha256").update(`csimux zvol ${guid}`).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
