import { createHash } from "node:crypto";

/** A file system's name taken apart. */
export interface VolumeName {
  readonly id: string;
  /** Size in bytes that was asked for. */
  readonly bytes: bigint;
}

/** The longest name of a file system in a pool, in characters. */
const longest = 63;
/** 40 bits, which nobody gets right by accident. */
const markDigits = 8;
/** An int64 in base 36. */
const sizeDigits = 13;
/** 130 bits: two names never get the same. */
const idDigits = 26;

/** The beginning of a SHA-256 in base 32. */
const digest = (text: string, digits: number): string => {
  const hex = createHash("sha256").update(text).digest("hex");
  return BigInt(`0x${hex}`).toString(32).padStart(52, "0").slice(0, digits);
};

const plain = /^[a-z0-9][a-z0-9-]*$/;
/** The ending of an id that is made of a digest. */
const digested = new RegExp(`(?:^|-)[0-9a-v]{${idDigits}}$`);
const idShape = /^[a-z0-9][a-z0-9._-]{0,62}$/;
const form = new RegExp(`^(.+)-([0-9a-z]{1,${sizeDigits}})-([0-9a-v]{${markDigits}})$`);
/** What external-provisioner calls a volume: "pvc-" and the random UID of the claim that it was made for (RFC 9562, 4). */
const ofClaim = /^pvc-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Whether a text can be the id of a volume. */
export const isVolumeId = (text: string): boolean => idShape.test(text);

/**
 * Whether a file system of this name that bears no mark was provably made for the volume of the same id: nobody else's would have
 * the same 122 random bits. democratic-csi made such ones; of any other it made nothing proves it.
 */
export const isOfClaim = (id: string): boolean => ofClaim.test(id);

/**
 * How the file systems of a connection are called. A file system in an object store has no place for notes, and its name is all
 * that a listing tells, so the name says everything: `<id>-<size in bytes, base 36>-<mark>`. The mark is a digest of the other
 * two and of whose volume it is.
 */
export class FilesystemNames {
  readonly #owners: readonly string[];
  readonly #longestId: number;

  /** `owners`: whose volumes are this connection's; the first one is written on new ones. */
  constructor(owners: readonly string[], maxIdBytes: number) {
    this.#owners = owners;
    this.#longestId = Math.min(maxIdBytes, longest - 2 - sizeDigits - markDigits);
  }

  /** The id of a volume of this name: the name itself where it is plain and short, else its head and a digest. */
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

  /** Undefined for a file system that does not bear a mark of this connection. */
  parse(filesystem: string): VolumeName | undefined {
    const [, id, size, found] = form.exec(filesystem) ?? [];
    if (id === undefined || size === undefined || found === undefined || !isVolumeId(id)) return undefined;
    if (!this.#owners.some(owner => mark(owner, id, size) === found)) return undefined;
    return { id, bytes: [...size].reduce((sum, digit) => sum * 36n + BigInt(Number.parseInt(digit, 36)), 0n) };
  }
}

const mark = (owner: string, id: string, size: string): string =>
  digest(JSON.stringify(["csimux", owner, id, size]), markDigits);
