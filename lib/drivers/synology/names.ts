import { createHash } from "node:crypto";
import { backendName } from "../../core/name.ts";
import type { Source } from "../driver.ts";

/** What targets and LUNs are named with. */
export interface LunNaming {
  readonly baseiqn: string;
  readonly prefix: string;
  readonly suffix: string;
}

/** A LUN's name taken apart. */
export interface LunName {
  readonly id: string;
  /** Who made it, and from what, as far as names tell; undefined for one that was made empty. */
  readonly tag: { readonly owner: string; readonly source: string } | undefined;
  readonly state: "whole" | "being made" | "being removed";
}

/** RFC 3720, 3.2.6.1: an iSCSI name has at most 223 bytes. */
export const longestIqn = 223;
/** DSM took 200 characters for sure; of longer names it refuses some and makes the LUN all the same. */
const longestLun = 200;
/** `.c`, the tag, `.` and eight digits, `.del`. */
const longestEnding = 2 + 18 + 1 + 8 + 4;

/** Digits of a LUN's UUID in the name of its target. */
const tagLength = 8;

const digest = (text: string, digits: number): string =>
  createHash("sha256").update(text).digest("hex").slice(0, digits);

const plain = /^[a-z0-9][a-z0-9-]*$/;
const idShape = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/;
const literal = (text: string): string => text.replaceAll(".", "\\.");

/** Whether a text can be the id of a volume. */
export const isVolumeId = (text: string): boolean => idShape.test(text);

/**
 * How volumes are called on a DSM. Its LUNs keep hardly anything beside their name, so the name says how far one has come:
 * `pvc-1.new` is being made, `pvc-1` is whole, `pvc-1.<digits>.del` is being removed. One that was made from another has a tag
 * behind its name, which tells who made it from what: a clone's description is not kept by every DSM.
 */
export class LunNames {
  readonly #naming: LunNaming;
  readonly #owners: readonly string[];
  readonly #maxIdBytes: number;
  readonly #form: RegExp;

  /** `owners`: whose volumes are this connection's; the first one is written on new ones. */
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

  /** The id of a volume of this name. DSM makes names small, so names that differ in nothing else get a digest. */
  idOf(name: string): string {
    if (plain.test(name) && name.length <= this.#maxIdBytes) return name;
    return backendName(` ${name}`, this.#maxIdBytes).toLowerCase().replaceAll("_", "-");
  }

  /** The name of the volume's target, and of its LUN where that was made empty: as democratic-csi has it. */
  base(id: string): string {
    const { prefix, suffix } = this.#naming;
    return `${prefix}${id.toLowerCase()}${suffix}`;
  }

  /** The iSCSI name of a target as democratic-csi has it; such names are equal whatever their case (RFC 3722). */
  iqn(id: string): string {
    return `${this.#naming.baseiqn}${this.base(id)}`;
  }

  /**
   * The iSCSI name of a new volume's target. It ends as no later volume of the same name does: a node that has lost its session of a
   * deleted volume finds no target to log in to again, where it would write into the volume that was made in its place. No id
   * has a dot.
   */
  taggedIqn(id: string, lun: string): string {
    const tag = lun.replaceAll("-", "").slice(0, tagLength).toLowerCase();
    return `${this.iqn(id).slice(0, longestIqn - tagLength - 1)}.${tag}`;
  }

  /** Whether an iSCSI name is one that a target of this volume may have. */
  isTarget(id: string, iqn: string): boolean {
    const [name, plain] = [iqn.toLowerCase(), this.iqn(id).toLowerCase()];
    const tagged = plain.slice(0, longestIqn - tagLength - 1);
    return name === plain || (name.startsWith(`${tagged}.`) && /^[0-9a-f]{8}$/.test(name.slice(tagged.length + 1)));
  }

  /** The LUN's name when it is whole. */
  lun(id: string, source: Source | undefined): string {
    return source ? `${this.base(id)}.c${this.#owners[0]}${this.sourceTag(source)}` : this.base(id);
  }

  /** The LUN's name while it is made. */
  building(id: string, source: Source | undefined): string {
    return `${this.lun(id, source)}.new`;
  }

  /** The name of a LUN that is being removed; the name of its volume is free then. */
  removed(name: string, uuid: string): string {
    return `${name.replace(/\.new$/, "")}.${uuid.replaceAll("-", "").slice(0, 8).toLowerCase()}.del`;
  }

  /** What a name says of its source. Snapshots have two spellings, so only their last part counts. */
  sourceTag({ kind, id }: Source): string {
    return digest(`${kind} ${kind === "snapshot" ? (id.split("/").at(-1) ?? "") : id}`, 12);
  }

  /** Whether a tag is one of this connection. */
  isOwn({ owner }: { readonly owner: string }): boolean {
    return this.#owners.includes(owner);
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

/** The description of a LUN: whose it is, what it was made from, and what the class wants to stand there. */
export function markOf(owner: string, source: Source | undefined, text: string): string {
  const from = source ? ` from ${source.kind} ${encodeURIComponent(source.id)}` : "";
  return `csimux:${encodeURIComponent(owner)}${from}${text === "" ? "" : ` | ${text}`}`;
}

/** What a description says; undefined for one that csimux has not written. */
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
