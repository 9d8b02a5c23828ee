import { createHash } from "node:crypto";
import type { Call } from "../../core/call.ts";
import type { ReadableTree } from "../../drivers/copying.ts";
import { ignoreMissing, unlimitedMs } from "../../io/runner.ts";
import type { CopyRecord } from "../record.ts";
import { isWhole, typesOf } from "./file-system-type.ts";

/**
 * Magic numbers (statfs(2)) of file systems that change a file's ctime with each change of its content: ext2 to ext4, XFS, Btrfs, and those that
 * an NFS server exports. No program can set it. Not among them: SMB and FUSE, which invent it, tmpfs, where a write through a mapping
 * changes no time, and all others.
 */
const trustedTypes: ReadonlySet<string> = new Set(["ef53", "58465342", "9123683e", "6969"]);

/** The most files of a tree that is remembered (about 60 bytes each); a larger one is compared completely. */
const mostFiles = 250_000;

/** The most trees that are remembered between passes; the others are compared completely again. */
const mostTrees = 4;

/** The most bytes of the paths that are compared one by one; with more, all files are compared. */
const mostPathBytes = 16 << 20;

/** What a tree was like when a pass began. */
interface Listing {
  /** Monotonic milliseconds, from before the listing began. */
  readonly began: number;
  /** A digest of each file's path, inode, ctime, mtime and size, and when that was first seen. */
  readonly files: ReadonlyMap<bigint, number>;
}

/** The files of one pass that must be compared by content: all, or these paths. */
export type ComparedFiles = "all" | readonly string[];

/** The listings of complete passes by target, in the memory of this process; another one compares everything once. */
export class FileListings {
  readonly #kept = new Map<string, Listing & Pick<CopyRecord, "pass" | "heartbeat">>();
  readonly #age: number;

  /** `age`: how many milliseconds a file must have been unchanged before a pass, for the next one to skip its content. */
  constructor(age: number) {
    this.#age = age;
  }

  /** Begins a pass. Earlier listings count only if the pass before was that of this process, and no other one wrote into the target since. */
  take(target: string, { pass, heartbeat }: CopyRecord): PassFiles {
    const last = this.#kept.get(target);
    this.#kept.delete(target);
    return new PassFiles(last?.pass === pass - 1 && last.heartbeat === heartbeat ? last : undefined, this.#age);
  }

  /** Keeps what a complete pass has seen, for the next one. `record`: as this process has left it. */
  keep(target: string, { pass, heartbeat }: CopyRecord, files: PassFiles): void {
    const { first } = files;
    if (!first) return;
    this.#kept.set(target, { ...first, pass, heartbeat });
    for (const oldest of [...this.#kept.keys()].slice(0, -mostTrees)) this.#kept.delete(oldest);
  }
}

/**
 * Finds the files of a pass whose content can have changed since the last pass began. A file is left out if nothing about it has changed
 * since a listing well before that: every later change has another ctime, also after its size and mtime were set back, or an older file was
 * moved over it. The listings are compared for equality, so that no two clocks are compared. The time between them (`age`) covers clocks
 * that count whole seconds, and a write that was in progress: the kernel sets the times before it copies the data.
 */
export class PassFiles {
  #before: Listing | undefined;
  readonly #age: number;
  #isFirst = true;
  #first: Listing | undefined;

  constructor(before: Listing | undefined, age: number) {
    this.#before = before;
    this.#age = age;
  }

  /** The listing from before the first attempt: a later one need not have copied what an earlier one has. */
  get first(): Listing | undefined {
    return this.#first;
  }

  /** The target is empty again. */
  restart(): void {
    this.#before = undefined;
    this.#first = undefined;
    this.#isFirst = true;
  }

  /** To be called before anything of the tree is read. */
  async compared(tree: ReadableTree, folder: string, call: Call): Promise<ComparedFiles> {
    const began = performance.now();
    const found = await this.#found(tree, folder, began, call);
    if (this.#isFirst) this.#first = found?.listing;
    this.#isFirst = false;
    return this.#before && found?.changed ? found.changed : "all";
  }

  /** Undefined if nothing is known about the tree: all of it is compared. */
  async #found(tree: ReadableTree, folder: string, began: number, call: Call) {
    try {
      const types = await typesOf(tree, folder, call);
      const isTrusted = trustedTypes.has(types.tree) && trustedTypes.has(types.target);
      return isTrusted ? await this.#list(tree, isWhole(types.tree), began, call) : undefined;
    } catch (error) {
      return ignoreMissing(error);
    }
  }

  /** `whole`: also what has another device number. */
  async #list(tree: ReadableTree, whole: boolean, began: number, call: Call) {
    const run = { timeoutMs: unlimitedMs };
    // Pages that a program has written through a mapping are written back, and its next write then sets the times.
    const synced = await tree.runner.run({ ...run, argv: ["sync", "--file-system", "--", tree.path] }, call.signal);
    if (synced.exitCode !== 0) return undefined;
    const files = new Map<bigint, number>();
    let changed: string[] | undefined = [];
    let bytes = 0;
    const entries = new Entries((entry, path) => {
      const digest = createHash("sha256").update(entry).digest().readBigUInt64LE();
      const since = this.#before?.files.get(digest);
      if (files.size <= mostFiles) files.set(digest, since ?? began);
      if (this.#before && since !== undefined && since <= this.#before.began - this.#age) return;
      bytes += path?.length ?? 0;
      if (path === undefined || bytes > mostPathBytes) changed = undefined;
      else changed?.push(path);
    });
    const argv = [
      "find",
      tree.path,
      ...(whole ? [] : ["-xdev"]),
      "-ignore_readdir_race",
      "-type",
      "f",
      "-printf",
      "%i %C@ %T@ %s %P\\0",
    ] as const;
    const listed = await tree.runner.run({ ...run, argv, onOutput: chunk => entries.add(chunk) }, call.signal);
    if (listed.exitCode !== 0 || files.size > mostFiles) return undefined;
    return { listing: { began, files }, changed };
  }
}

/** Splits the output of find(1) into its entries. The path is undefined if it is not UTF-8: it cannot be passed to a program. */
class Entries {
  readonly #entry: (entry: Buffer, path: string | undefined) => void;
  #rest: Buffer = Buffer.alloc(0);

  constructor(entry: (entry: Buffer, path: string | undefined) => void) {
    this.#entry = entry;
  }

  add(chunk: Uint8Array): void {
    const all = Buffer.concat([this.#rest, chunk]);
    let start = 0;
    for (let end = all.indexOf(0); end >= 0; end = all.indexOf(0, start)) {
      const entry = all.subarray(start, end);
      this.#entry(entry, pathOf(entry));
      start = end + 1;
    }
    this.#rest = Buffer.from(all.subarray(start));
  }
}

function pathOf(entry: Buffer): string | undefined {
  let start = 0;
  for (let field = 0; field < 4; field++) start = entry.indexOf(0x20, start) + 1;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(entry.subarray(start));
  } catch {
    return undefined;
  }
}
