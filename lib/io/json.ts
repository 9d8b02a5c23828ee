import { randomUUID } from "node:crypto";
import { setImmediate as yieldToEventLoop } from "node:timers/promises";

/** A text up to this size is not checked before it is parsed, in bytes. */
const tinyBytes = 4 << 10;
/** The part of a text that is scanned or parsed before the event loop continues, in bytes. */
const pieceBytes = 256 << 10;
/** The most values read at once, enough for 5,000 volumes: the limit of one element of a long array. */
const mostTogether = 500_000;
/** The maximum depth of objects and arrays; answers of storage systems need ten. */
const deepest = 64;
/** The maximum number of values: each costs memory, however short it is. */
const mostValues = 3_000_000;
/** A longer text is never parsed at once, in bytes. */
const longBytes = 8 << 20;

/** A text that is not JSON, or that no storage system would answer. */
export class NotJson extends Error {
  override readonly name = "NotJson";
}

/**
 * The value of a JSON text (RFC 8259) in UTF-8. Nesting and the number of values are checked before it is parsed.
 * A text with very many values is parsed in pieces, by elements of its outermost arrays, so that other work continues.
 * Throws NotJson.
 */
export async function parsedJson(text: Buffer): Promise<unknown> {
  if (text.length <= tinyBytes) return read(text.toString("utf8"));
  const first = new JsonScanner(text);
  await first.through();
  if (first.values <= mostTogether && text.length <= longBytes) return read(text.toString("utf8"));
  const scan = new JsonScanner(text);
  const place = `array ${randomUUID()} `;
  const skeleton: string[] = [];
  const arrays: unknown[][] = [];
  let from = 0;
  let outside = 0;
  let counted = 0;
  const keep = (to: number): void => {
    outside += scan.values - counted;
    if (outside > mostTogether) throw new NotJson(`more than ${mostTogether} values are outside arrays`);
    skeleton.push(text.toString("utf8", from, to));
  };
  for (;;) {
    const begin = await scan.array();
    keep(begin ?? text.length);
    if (begin === undefined) break;
    const array: unknown[] = [];
    for await (const elements of scan.elements(begin)) for (const element of elements) array.push(element);
    skeleton.push(JSON.stringify(place + arrays.length));
    arrays.push(array);
    from = scan.at;
    counted = scan.values;
  }
  const revive = (_: string, value: unknown): unknown =>
    typeof value === "string" && value.startsWith(place) ? arrays[Number(value.slice(place.length))] : value;
  return read(skeleton.join(""), revive);
}

function read(text: string, revive?: (key: string, value: unknown) => unknown): unknown {
  try {
    return JSON.parse(text, revive);
  } catch {
    throw new NotJson("it is not JSON");
  }
}

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a];
const [openArray, closeArray, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d];
/** No byte, and no depth. */
const [none, anyDepth] = [-1, -1_000_000_000];

/** Scans a text once, byte by byte, without parsing values. */
class JsonScanner {
  at = 0;
  /** The number of values passed. */
  values = 0;
  readonly #text: Buffer;
  #depth = 0;
  #rested = 0;

  constructor(text: Buffer) {
    this.#text = text;
  }

  /** Scans to the end. */
  async through(): Promise<void> {
    while (this.at < this.#text.length) {
      this.#seek(none);
      await this.#rest();
    }
  }

  /** The start of the next array; undefined at the end. */
  async array(): Promise<number | undefined> {
    while (this.at < this.#text.length) {
      if (this.#seek(openArray)) return this.at;
      await this.#rest();
    }
    return undefined;
  }

  /** The elements of the array that starts at `begin`, in groups; then continues after the array. */
  async *elements(begin: number): AsyncGenerator<readonly unknown[]> {
    const inside = this.#depth + 1;
    this.#step();
    let from = begin + 1;
    let counted = this.values;
    while (this.at < this.#text.length) {
      if (!this.#seek(comma, closeArray, inside)) {
        await this.#rest();
        continue;
      }
      if (this.values - counted > mostTogether)
        throw new NotJson(`an element of an array has more than ${mostTogether} values`);
      counted = this.values;
      const closing = this.#text[this.at] === closeArray;
      if (closing || this.at - from > pieceBytes) {
        yield this.#between(from, this.at, closing && from === begin + 1);
        from = this.at + 1;
        await this.#rest();
      }
      this.#step();
      if (closing) return;
    }
    throw new NotJson("it is incomplete");
  }

  #between(from: number, to: number, mayBeEmpty: boolean): readonly unknown[] {
    const list = read(`[${this.#text.toString("utf8", from, to)}]`) as readonly unknown[];
    if (list.length === 0 && !mayBeEmpty) throw new NotJson("it is not JSON");
    return list;
  }

  /** Lets the event loop continue after each piece. */
  async #rest(): Promise<void> {
    if (this.at - this.#rested < pieceBytes) return;
    this.#rested = this.at;
    await yieldToEventLoop();
  }

  /** Advances by one byte or one string. */
  #step(): void {
    this.#seek(none, none, anyDepth, this.at + 1);
  }

  /**
   * Advances to a byte `one` or `other` outside strings at this depth and returns true; false at `end` or soon after it. One
   * loop over plain numbers, because texts are long.
   */
  #seek(one: number, other = one, depth = anyDepth, end = this.at + pieceBytes): boolean {
    const text = this.#text;
    const stop = Math.min(end, text.length);
    let at = this.at;
    let level = this.#depth;
    let values = this.values;
    let found = false;
    while (at < stop) {
      const byte = text[at] as number;
      if ((byte === one || byte === other) && (level === depth || depth === anyDepth)) {
        found = true;
        break;
      }
      at++;
      if (byte === quote) at = stringEnd(text, at);
      else if (byte === comma || byte === colon) values++;
      else if (byte === openArray || byte === openObject) {
        values++;
        level++;
        if (level > deepest) throw new NotJson(`it is nested deeper than ${deepest} levels`);
      } else if (byte === closeArray || byte === closeObject) level--;
    }
    if (values > mostValues) throw new NotJson(`it has more than ${mostValues} values`);
    this.at = at;
    this.#depth = level;
    this.values = values;
    return found;
  }
}

/** The position after the closing quote of the string whose first byte is at `from`. */
function stringEnd(text: Buffer, from: number): number {
  for (let at = from; at < text.length; at++) {
    const byte = text[at];
    if (byte === quote) return at + 1;
    if (byte === backslash) at++;
  }
  throw new NotJson("it is incomplete");
}
