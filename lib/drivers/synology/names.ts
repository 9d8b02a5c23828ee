import { createHash } from "node:crypto";
import { backendName } from "../../core/name.ts";
import type { Source } from "../driver.ts";

/** The fixed parts of the names of targets and LUNs. */
export interface LunNaming {
  readonly baseiqn: string;
  readonly prefix: string;
  readonly suffix: string;
}

/** The parts of a LUN's name. */
export interface LunName {
  readonly id: string;
  /** Digests of the owner and the source of a LUN created from a source. */
  readonly tag: { readonly owner: string; readonly source: string } | undefined;
  readonly state: "whole" | "being made" | "being removed";
}

/** RFC 3720, 3.2.6.1: an iSCSI name has at most 223 bytes. */
export const longestIqn = 223;
/** DSM accepts 200 characters. It refuses some longer names and creates the LUN anyway. */
const longestLun = 200;
/** `.c`, the tag, `.` and eight digits, `.del`. */
const longestEnding = 2 + 18 + 1 + 8 + 4;

/** Digits of a LUN's UUID in the name of its target. */
const tagLength = 8;

/** The beginning of a SHA-256. */
export const digest = (text: string, digits: number): string =>
  createHash("sha256").update(text).digest("hex").slice(0, digits);

/** A name that needs no digest: DSM ignores case. */
export const plain = /^[a-z0-9][a-z0-9-]*$/;
const literal = (text: string): string => text.replaceAll(".", "\\.");

/** The id of a volume of this name. DSM ignores case, so names that are not plain lower case get a digest. */
export const idWithin = (name: string, maxBytes: number): string =>
  plain.test(name) && name.length <= maxBytes
    ? name
    : backendName(` ${name}`, maxBytes).toLowerCase().replaceAll("_", "-");

/** The digest of a source. Ids of snapshots of LUNs have two forms, so only their last part counts. */
export const sourceTag = ({ kind, id }: Source): string =>
  digest(`${kind} ${kind === "snapshot" ? (id.split("/").at(-1) ?? "") : id}`, 12);

/** A UUID, as in the names of claims' volumes, or the digest of `backendName`. */
const uniqueEnding = /(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{20})$/i;

/** Whether an id occurs in no name but those of its volume, whatever stands around it. */
export const isUnique = (id: string): boolean => uniqueEnding.test(id);

/**
 * The names of volumes on a DSM, which stores little else about a LUN. So the name shows the state: `pvc-1.new` is being
 * created, `pvc-1` is finished, `pvc-1.<digits>.del` is being removed. A clone has a tag after its name with digests of its
 * owner and source, because not every DSM keeps the description of a clone.
 */
export class LunNames {
  readonly #naming: LunNaming;
  readonly #owners: readonly string[];
  readonly #maxIdBytes: number;
  readonly #form: RegExp;

  /** `owners`: the owners whose volumes belong to this connection; the first is recorded on new volumes. */
  constructor(naming: LunNaming, owners: readonly string[], maxIdBytes: number) {
    const prefix = naming.prefix.toLowerCase();
    const suffix = naming.suffix.toLowerCase();
    this.#naming = { ...naming, prefix, suffix };
    this.#owners = owners.map(owner => digest(owner, 6));
    const around = prefix.length + suffix.length;
    const room = Math.min(longestIqn - naming.baseiqn.length, longestLun - longestEnding) - around;
    this.#maxIdBytes = Math.min(maxIdBytes, room);
    const tag = "(?:\\.c([0-9a-f]{6})([0-9a-f]{12}))?";
    const state = "(\\.new|\\.[0-9a-f]{8}\\.del)?";
    this.#form = new RegExp(`^${literal(prefix)}([a-z0-9][a-z0-9_-]*)${literal(suffix)}${tag}${state}$`);
  }

  /** The id of a volume of this name. */
  idOf(name: string): string {
    return idWithin(name, this.#maxIdBytes);
  }

  /** The name of the volume's target, and of its LUN unless it is a clone, in democratic-csi's form. */
  base(id: string): string {
    const { prefix, suffix } = this.#naming;
    return `${prefix}${id.toLowerCase()}${suffix}`;
  }

  /** The iSCSI name of a target in democratic-csi's form; case is ignored (RFC 3722). */
  iqn(id: string): string {
    return `${this.#naming.baseiqn}${this.base(id)}`;
  }

  /**
   * The iSCSI name of a new volume's target, with an ending that no later volume of the same name gets: a node that lost its
   * session of a deleted volume must not find a target to log in to again, and write into the new volume. No id has a dot.
   */
  taggedIqn(id: string, lun: string): string {
    const tag = lun.replaceAll("-", "").slice(0, tagLength).toLowerCase();
    return `${this.iqn(id).slice(0, longestIqn - tagLength - 1)}.${tag}`;
  }

  /** The name of a new volume's target in SAN Manager, where names are unique as well; has the ending of its IQN. */
  taggedName(id: string, lun: string): string {
    return `${this.base(id)}${this.taggedIqn(id, lun).slice(-tagLength - 1)}`;
  }

  /** Whether a target of this volume may have this iSCSI name. */
  isTarget(id: string, iqn: string): boolean {
    const [name, plain] = [iqn.toLowerCase(), this.iqn(id).toLowerCase()];
    const tagged = plain.slice(0, longestIqn - tagLength - 1);
    return name === plain || (name.startsWith(`${tagged}.`) && /^[0-9a-f]{8}$/.test(name.slice(tagged.length + 1)));
  }

  /** The name of the finished LUN. */
  lun(id: string, source: Source | undefined): string {
    return source ? `${this.base(id)}.c${this.#owners[0]}${sourceTag(source)}` : this.base(id);
  }

  /** The name of the LUN while it is created. */
  building(id: string, source: Source | undefined): string {
    return `${this.lun(id, source)}.new`;
  }

  /** The name of the LUN while it is removed, which frees the name of its volume. */
  removed(name: string, uuid: string): string {
    return `${name.replace(/\.new$/, "")}.${uuid.replaceAll("-", "").slice(0, 8).toLowerCase()}.del`;
  }

  /** Whether a tag belongs to this connection. */
  isOwn({ owner }: { readonly owner: string }): boolean {
    return this.#owners.includes(owner);
  }

  /** Whether a LUN of this name is the volume of this id, finished or not, made with another prefix or suffix. `isMarked`: its mark is this connection's. */
  isOtherwise(id: string, name: string, isMarked: boolean): boolean {
    if (!isUnique(id) || !name.toLowerCase().includes(id.toLowerCase())) return false;
    const [, owner, ending] = /(?:\.c([0-9a-f]{6})[0-9a-f]{12})?(\.new|\.[0-9a-f]{8}\.del)?$/.exec(name) ?? [];
    const isOwn = owner === undefined ? isMarked : this.isOwn({ owner });
    return isOwn && !ending?.endsWith(".del") && this.parse(name)?.id !== id.toLowerCase();
  }

  /** Undefined for a name that no volume of this connection can have. */
  parse(name: string): LunName | undefined {
    const [, id, owner, source, ending] = this.#form.exec(name) ?? [];
    if (id === undefined) return undefined;
    const tag = owner !== undefined && source !== undefined ? { owner, source } : undefined;
    const state = ending === undefined ? "whole" : ending === ".new" ? "being made" : "being removed";
    return { id, tag, state };
  }
}

const markShape = /^csimux:(\S+)(?: from (volume|snapshot) (\S+))?(?: \||$)/;

/** The description of a LUN: its owner, its source, and the class's own text. */
export function markOf(owner: string, source: Source | undefined, text: string): string {
  const from = source ? ` from ${source.kind} ${encodeURIComponent(source.id)}` : "";
  return `csimux:${encodeURIComponent(owner)}${from}${text === "" ? "" : ` | ${text}`}`;
}

/** Parses a description; undefined unless csimux wrote it. */
export function parseMark(
  description: string,
): { readonly owner: string; readonly source: Source | undefined } | undefined {
  const [, owner, kind, id] = markShape.exec(description) ?? [];
  if (owner === undefined) return undefined;
  const source = (kind === "volume" || kind === "snapshot") && id !== undefined ? { kind, id: decoded(id) } : undefined;
  return { owner: decoded(owner), source: source as Source | undefined };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
