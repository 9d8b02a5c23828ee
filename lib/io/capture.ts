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

/** Collects a stream of data: all of it, or nothing if it is longer than `maxBytes`. */
export class Data {
  readonly #maxBytes: number;
  #chunks: Uint8Array[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Returns false if the data exceeds the limit. */
  add(chunk: Uint8Array): boolean {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#maxBytes) this.#chunks = [];
    else this.#chunks.push(chunk);
    return this.#bytes <= this.#maxBytes;
  }

  /** All data, decoded as UTF-8 at once. */
  text(): string {
    return Buffer.concat(this.#chunks).toString("utf8");
  }
}
