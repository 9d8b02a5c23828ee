import type { Argv, Output } from "../../../io/runner.ts";
import type { StorageHost } from "../../../io/script.ts";
import type { BlockRange } from "../../driver.ts";
import { refusal } from "../cli/answers.ts";
import { incomplete } from "../cli/rows.ts";
import type { Programs } from "../cli/steps.ts";
import type { StreamBase } from "../streams.ts";
import { ZfsError } from "../zfs.ts";
import text from "./block-list.sh" with { type: "text" };
import { Chunks } from "./chunks.ts";

/** A list of blocks to make: of a zvol's snapshot, or of its changes since `base`. */
export interface WantedBlocks {
  readonly snapshot: string;
  readonly base: StreamBase | undefined;
  /** The size of the snapshot, and its block size, in bytes. */
  readonly size: bigint;
  readonly block: bigint;
  /** The offset of a block, where the list begins. */
  readonly from: bigint;
}

/**
 * The ranges of a list, whole blocks, with ascending offsets and without overlap, below the size. They are as old as the snapshots. Ends
 * the programs on the host with the iteration, or when the signal is aborted. Throws like `Zfs`, "unlisted" where the host cannot make lists.
 */
export type BlockLists = (wanted: WantedBlocks, signal: AbortSignal) => AsyncIterable<readonly BlockRange[]>;

/** Lists of blocks that zfs send and zstream(8) make on a host: what it sends stays there. */
export const blockLists = (host: StorageHost, programs: Programs): BlockLists =>
  async function* (wanted, signal) {
    const { snapshot, base = "", size, from } = wanted;
    const argv: Argv = ["sh", "-c", text, "sh", snapshot, base, String(size), String(from), ...programs.zfs];
    const unable = `${host.runner.where} cannot run a program whose output is read while it runs`;
    if (!host.child) throw new ZfsError("unlisted", unable);
    const chunks = new Chunks();
    const child = await host.child(argv, { stdout: chunks.add }, signal);
    child.ended.then(chunks.close, chunks.close);
    const lines = new RangeLines(wanted);
    try {
      for await (const chunk of chunks) {
        const ranges = lines.add(Buffer.from(chunk).toString("latin1"));
        if (ranges.length > 0) yield ranges;
      }
      const output = await child.ended;
      if (output.exitCode !== 0) throw failureOf(output);
      if (!lines.isComplete) throw incomplete("the list of blocks has no end");
    } finally {
      await child.end();
    }
  };

/** The exit codes 3 and 4 are those of block-list.sh. */
function failureOf(output: Output): ZfsError {
  if (output.exitCode !== 3 && output.exitCode !== 4) return refusal(output);
  return new ZfsError("unlisted", output.stderr.trim().split("\n").at(-1)?.slice(0, 300) ?? "");
}

/** More than a line of the list can have, in bytes. */
const longestLine = 64;

/** Reads the lines of block-list.sh, which arrive in pieces. What a login prints before them is ignored. */
class RangeLines {
  readonly #wanted: Pick<WantedBlocks, "size" | "block" | "from">;
  #rest = "";
  #end: bigint;
  #state: "before" | "listing" | "complete" = "before";

  constructor(wanted: Pick<WantedBlocks, "size" | "block" | "from">) {
    this.#wanted = wanted;
    this.#end = wanted.from;
  }

  /** Whether the last line was read, and nothing behind it. */
  get isComplete(): boolean {
    return this.#state === "complete" && this.#rest === "";
  }

  /** The ranges of the lines that end in this piece. Throws ZfsError "incomplete" for text that cannot be such a list. */
  add(piece: string): readonly BlockRange[] {
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop() ?? "";
    const ranges = lines.flatMap(line => this.#line(line));
    if (this.#rest.length > longestLine) {
      if (this.#state !== "before") throw odd(this.#rest);
      this.#rest = this.#rest.slice(-longestLine);
    }
    return ranges;
  }

  #line(line: string): readonly BlockRange[] {
    if (this.#state === "before") {
      if (line === "begin") this.#state = "listing";
      return [];
    }
    if (this.#state === "complete") throw odd(line);
    if (line === ".") return [];
    if (line === "end") {
      this.#state = "complete";
      return [];
    }
    return [this.#range(line)];
  }

  #range(line: string): BlockRange {
    const { size, block } = this.#wanted;
    const [, first, length] = /^(\d{1,19}) (\d{1,19})$/.exec(line) ?? [];
    if (first === undefined || length === undefined) throw odd(line);
    const [offset, bytes] = [BigInt(first), BigInt(length)];
    const isWhole = bytes > 0n && offset % block === 0n && bytes % block === 0n;
    if (!isWhole || offset < this.#end || offset + bytes > size) throw odd(line);
    this.#end = offset + bytes;
    return { offset, bytes };
  }
}

const odd = (line: string): ZfsError => incomplete(`the list of blocks cannot have the line "${line.slice(0, 64)}"`);
