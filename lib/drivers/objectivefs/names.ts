import { createHash } from "node:crypto";

/** The parts of a file system's name. */
export interface VolumeName {
  readonly id: string;
  /** The requested size in bytes. */
  readonly bytes: bigint;
}

/** The longest name of a file system in a pool, in characters. */
const longest = 63;
/** 40 bits: accidental matches are negligible. */
const markDigits = 8;
/** An int64 in base 36. */
const sizeDigits = 13;
/** 130 bits: no two names have the same digest. */
const idDigits = 26;

/** The beginning of a SHA-256 in base 32. */
const digest = (text: string, digits: number): string => {
  const hex = createHash("sha256").update(text).digest("hex");
  return BigInt(`0x${hex}`).toString(32).padStart(52, "0").slice(0, digits);
};

const plain = /^[a-z0-9][a-z0-9-]*$/;
/** The ending of an id with a digest. */
const digested = new RegExp(`(?:^|-)[0-9a-v]{${idDigits}}$`);
const idShape = /^[a-z0-9][a-z0-9._-]{0,62}$/;
const form = new RegExp(`^(.+)-([0-9a-z]{1,${sizeDigits}})-([0-9a-v]{${markDigits}})$`);
/** external-provisioner's name of a volume: "pvc-" and the random UID of its claim (RFC 9562, 4). */
const ofClaim = /^pvc-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Whether a text is a valid volume id. */
export const isVolumeId = (text: string): boolean => idShape.test(text);

/**
 * Whether an unmarked file system of this name was provably made for the volume of the same id: its 122 random bits occur
 * nowhere else. democratic-csi made such file systems; for any other unmarked one there is no proof.
 */
export const isOfClaim = (id: string): boolean => ofClaim.test(id);

/**
 * The names of the file systems of a connection. A listing shows nothing but names, so the name contains everything:
 * `<id>-<size in bytes, base 36>-<mark>`. The mark is a digest of id, size and owner.
 */
export class FilesystemNames {
  readonly #owners: readonly string[];
  readonly #longestId: number;

  /** `owners`: the owners whose volumes belong to this connection; the first is used for new volumes. */
  constructor(owners: readonly string[], maxIdBytes: number) {
    this.#owners = owners;
    this.#longestId = Math.min(maxIdBytes, longest - 2 - sizeDigits - markDigits);
  }

  /** The id for a volume name: the name itself if it is plain and short, otherwise its head and a digest. */
  idOf(name: string): string {
    if (plain.test(name) && name.length <= this.#longestId && !digested.test(name)) return name;
    const head = name
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, "-")
      .slice(0, this.#longestId - 1 - idDigits)
      .replace(/^-+|-+$/g, "");
    return head === "" ? digest(name, idDigits) : `${head}-${digest(name, idDigits)}`;
  }

  /** The name of the file system of a volume. */
  filesystem(id: string, bytes: bigint): string {
    const size = bytes.toString(36);
    return `${id}-${size}-${mark(this.#owners[0] ?? "", id, size)}`;
  }

  /** Undefined for a file system without a mark of this connection. */
  parse(filesystem: string): VolumeName | undefined {
    const [, id, size, found] = form.exec(filesystem) ?? [];
    if (id === undefined || size === undefined || found === undefined || !isVolumeId(id)) return undefined;
    if (!this.#owners.some(owner => mark(owner, id, size) === found)) return undefined;
    return { id, bytes: [...size].reduce((sum, digit) => sum * 36n + BigInt(Number.parseInt(digit, 36)), 0n) };
  }

  /** Whether this file system has this id and a mark, of whatever connection. */
  isOfAny(filesystem: string, id: string): boolean {
    return form.exec(filesystem)?.[1] === id;
  }

  /** Whether the first owner has made this file system. */
  isOfFirst(filesystem: string): boolean {
    const volume = this.parse(filesystem);
    return volume !== undefined && this.filesystem(volume.id, volume.bytes) === filesystem;
  }
}

const mark = (owner: string, id: string, size: string): string =>
  digest(JSON.stringify(["csimux", owner, id, size]), markDigits);
