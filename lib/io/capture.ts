/** How much of the beginning and of the end of a stream is kept, in bytes each. */
const keptBytes = 64 * 1024;

/** The line in place of omitted text. */
export const omittedLine = /^\[\d+ bytes omitted\]$/m;

/**
 * Collects a stream of messages in bounded memory: its first and last 64 KiB.
 * A separate line marks the omitted part, so that shortened text is recognizable.
 */
export class Capture {
  readonly #head: Uint8Array[] = [];
  #headBytes = 0;
  #tail: Uint8Array[] = [];
  #tailBytes = 0;
  #lostBytes = 0;

  add(chunk: Uint8Array): void {
    const room = Math.max(0, keptBytes - this.#headBytes);
    if (room > 0) {
      this.#head.push(chunk.subarray(0, room));
      this.#headBytes += Math.min(room, chunk.length);
    }
    if (chunk.length > room) this.#append(chunk.subarray(room));
  }

  /** All kept text, decoded as UTF-8 at once; a character cut in two becomes U+FFFD. */
  text(): string {
    const tail = Buffer.concat(this.#tail);
    const extra = Math.max(0, tail.length - keptBytes);
    const lost = this.#lostBytes + extra;
    const head = Buffer.concat(this.#head);
    if (lost === 0) return Buffer.concat([head, tail]).toString("utf8");
    return `${head.toString("utf8")}\n[${lost} bytes omitted]\n${tail.subarray(extra).toString("utf8")}`;
  }

  #append(chunk: Uint8Array): void {
    this.#tail.push(chunk);
    this.#tailBytes += chunk.length;
    if (this.#tailBytes <= 4 * keptBytes) return;
    const joined = Buffer.concat(this.#tail);
    const rest = Buffer.from(joined.subarray(joined.length - keptBytes));
    this.#lostBytes += joined.length - rest.length;
    this.#tail = [rest];
    this.#tailBytes = rest.length;
  }
}

/** The longest line of a stream whose lines are checked, in bytes; further ones need not be read. */
const longestLine = 64 * 1024;

/** Collects a stream of data: all of it, or nothing if it is longer than `maxBytes` or `check` throws for a line. */
export class Data {
  readonly #maxBytes: number;
  readonly #check: ((line: string) => void) | undefined;
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  /** The beginning of a line to check, in UTF-8. */
  #line: Uint8Array = new Uint8Array();

  constructor(maxBytes: number, check?: (line: string) => void) {
    this.#maxBytes = maxBytes;
    this.#check = check;
  }

  /** Returns what is wrong: "overflow" if the data exceeds the limit, or the text of the Error for a line. */
  add(chunk: Uint8Array): string | undefined {
    this.#bytes += chunk.length;
    const wrong = this.#bytes > this.#maxBytes ? "overflow" : this.#checked(chunk);
    if (wrong === undefined) this.#chunks.push(chunk);
    else this.#chunks = [];
    return wrong;
  }

  /** All data, decoded as UTF-8 at once. */
  text(): string {
    return Buffer.concat(this.#chunks).toString("utf8");
  }

  #checked(chunk: Uint8Array): string | undefined {
    if (!this.#check) return undefined;
    const end = chunk.lastIndexOf(0x0a);
    const rest = end < 0 ? [this.#line, chunk] : [chunk.subarray(end + 1)];
    try {
      if (end >= 0) {
        const lines = Buffer.concat([this.#line, chunk.subarray(0, end)]).toString("utf8");
        for (const line of lines.split("\n")) this.#check(line);
      }
      this.#line = Buffer.concat(rest);
      if (this.#line.length > longestLine) return `a line has more than ${longestLine} bytes`;
    } catch (error) {
      if (error instanceof Error) return error.message;
      throw error;
    }
    return undefined;
  }
}
