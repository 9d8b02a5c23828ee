import { CsiError } from "../../../core/errors.ts";
import { Semaphore } from "../../../core/semaphore.ts";
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

/** The number of lists that a host makes at once: each reads a whole zvol, or what was changed in it. */
const listsAtOnce = 2;

/**
 * How long a list may stand still, in milliseconds. The host writes a line for a few thousand records; a client may back up a part before
 * it reads the next one.
 */
export const usualPatience = { hostMs: 10 * 60_000, clientMs: 30 * 60_000 };

/** Waits for a slot; the function that is returned releases it. */
const slotOf = (slots: Semaphore, signal: AbortSignal): Promise<() => void> =>
  new Promise((resolve, reject) => {
    slots.run(() => new Promise<void>(release => resolve(release)), signal).catch(reject);
  });

/**
 * Lists of blocks that zfs send and zstream(8) make on a host: what it sends stays there. Of all connections of a host two are made at once, the
 * others wait; one that stands still ends, so that it does not keep them waiting.
 */
export const blockLists = (host: StorageHost, programs: Programs, patience = usualPatience): BlockLists =>
  async function* (wanted, signal) {
    const { snapshot, base = "", size, from } = wanted;
    const argv: Argv = ["sh", "-c", text, "sh", snapshot, base, String(size), String(from), ...programs.zfs];
    const unable = `${host.runner.where} cannot run a program whose output is read while it runs`;
    if (!host.child) throw new ZfsError("unlisted", unable);
    const release = await slotOf(
      host.shared("lists of blocks", () => new Semaphore(listsAtOnce)),
      signal,
    );
    const standstill = new AbortController();
    standstill.signal.addEventListener("abort", release);
    let timer: NodeJS.Timeout | undefined;
    const expect = (who: string, withinMs: number): void => {
      clearTimeout(timer);
      const reason = `${who} for ${withinMs / 60_000} minutes, so the list of the blocks of ${snapshot} was ended; ask for the rest again`;
      timer = setTimeout(() => standstill.abort(new CsiError("unavailable", reason)), withinMs);
    };
    try {
      const chunks = new Chunks();
      const child = await host.child(argv, { stdout: chunks.add }, AbortSignal.any([signal, standstill.signal]));
      child.ended.then(chunks.close, chunks.close);
      const lines = new RangeLines(wanted);
      try {
        const hostWrites = () => expect(`${host.runner.where} has written nothing`, patience.hostMs);
        hostWrites();
        for await (const chunk of chunks) {
          const ranges = lines.add(Buffer.from(chunk).toString("latin1"));
          expect("the client has read nothing", patience.clientMs);
          if (ranges.length > 0) yield ranges;
          hostWrites();
        }
        const output = await child.ended;
        if (output.exitCode !== 0) throw failureOf(output);
        if (!lines.isComplete) throw incomplete("the list of blocks has no end");
      } finally {
        await child.end();
      }
    } catch (error) {
      throw standstill.signal.aborted ? standstill.signal.reason : error;
    } finally {
      clearTimeout(timer);
      release();
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
