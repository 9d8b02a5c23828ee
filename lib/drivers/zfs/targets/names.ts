import { createHash } from "node:crypto";
import { CsiError } from "../../../core/errors.ts";
import { rendered } from "../../../core/template.ts";
import type { VolumeSpec } from "../../driver.ts";

/** How targets are named after their volumes: the naming keys of the blocks `iscsi:` and `nvmeof:`. */
export interface TargetNaming {
  readonly basename: string;
  readonly nameTemplate?: string | undefined;
  readonly namePrefix: string;
  readonly nameSuffix: string;
  /** What the part behind the basename may be. */
  readonly fits: { readonly shape: RegExp; readonly help: string };
}

/** iSCSI accepts letters, digits, ".", ":" and "-" (RFC 3722), and the target of Linux no "_". */
export const iscsiNames: TargetNaming["fits"] = {
  shape: /^[a-z0-9][a-z0-9.:-]*$/,
  help: 'letters, digits, ".", ":" and "-"',
};

/** Any text would do (NVMe Base Specification, "NVMe Qualified Names"), but nodes and tools must read it as one word. */
export const nvmeNames: TargetNaming["fits"] = {
  shape: /^[a-z0-9][a-z0-9._:-]*$/,
  help: 'letters, digits, ".", ":", "-" and "_"',
};

/** The longest qualified name in bytes (RFC 3720, 3.2.6.1; NVMe Base Specification, "NVMe Qualified Names"). */
const longest = 223;

/** The names of one volume's target. */
export interface TargetName {
  readonly backstore: string;
  /** IQN or NQN: the basename, a colon and the name of the backstore. */
  readonly qualifiedName: string;
}

const named = ({ basename }: TargetNaming, backstore: string): TargetName => ({
  backstore,
  qualifiedName: `${basename}:${backstore}`,
});

/** The name without a template: what democratic-csi falls back to for volumes without a note of it. */
export const plainName = (naming: TargetNaming, id: string): TargetName =>
  named(naming, `${naming.namePrefix}${id}${naming.nameSuffix}`.toLowerCase());

const tagLength = 8;

/**
 * Tells a zvol from every later one of the same name, in the name of its target: a node that still has a session of a deleted
 * volume finds no target to log in to, instead of writing into the volume that replaced it. Follows from the guid of the zvol, so
 * that a repeated call finds the same name. Empty when the guid is unknown.
 */
export const tagOf = (guid: string): string =>
  guid === "" ? "" : createHash("sha256").update(`csimux target ${guid}`).digest("hex").slice(0, tagLength);

/** Whether only the volume with this guid can have a target of this name. */
export const bearsTag = (name: string, guid: string): boolean => guid !== "" && name.includes(`-${tagOf(guid)}`);

/** The name of a new volume's target, in lower case for initiators of Windows, cut for the tag. Throws "invalid-argument". */
export function targetName(
  naming: TargetNaming,
  { id, guid }: { id: string; guid: string },
  { name, parameters }: VolumeSpec,
): TargetName {
  const { basename, nameTemplate, namePrefix, nameSuffix } = naming;
  const middle = (nameTemplate ? rendered(nameTemplate, { name, parameters }) : id).toLowerCase();
  const around = [namePrefix.toLowerCase(), nameSuffix.toLowerCase()] as const;
  const plain = checkedName(naming, around.join(middle));
  const tag = tagOf(guid);
  if (tag === "") return plain;
  const room = longest - basename.length - 1 - around.join("").length - tag.length - 1;
  return checkedName(naming, around.join(`${middle.slice(0, Math.max(room, 0))}-${tag}`));
}

/** The names of a target with this backstore. Throws as `targetName`. */
export function checkedName(naming: TargetNaming, backstore: string): TargetName {
  const name = named(naming, backstore);
  if (naming.fits.shape.test(backstore) && name.qualifiedName.length <= longest) return name;
  throw new CsiError(
    "invalid-argument",
    `"${name.qualifiedName.slice(0, 250)}" cannot name a target: it may hold ${naming.fits.help}, at most ${longest}; see nameTemplate`,
  );
}

/** The UUID of a namespace, and a backstore's serial (RFC 9562, version 8): nodes give up a disk whose identity changes. */
export function uuidOf(guid: string): string {
  const bytes = createHash("sha256").update(`csimux zvol ${guid}`).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
