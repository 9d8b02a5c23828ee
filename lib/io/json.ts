import { randomUUID } from "node:crypto";
import { setImmediate as breathe } from "node:timers/promises";

/** A text up to this size can be of any form, in bytes. */
const tinyBytes = 4 << 10;
/** A text up to this size is read in one go, in bytes: that takes some milliseconds. */
const smallBytes = 256 << 10;
/** How much is looked through, and how much of an array is read, before others have their turn. */
const pieceBytes = 256 << 10;
/** How many values one element of an array, and everything outside arrays, may have: they are read in one go. */
const mostTogether = 200_000;
/** How deep objects and arrays may lie in each other; answers of storages need ten. */
const deepest = 64;
/** How many values a text may have: each costs memory, however short it is. */
const mostValues = 3_000_000;
/** A longer text, in bytes, is looked through before the first value is made of it; a shorter one cannot have many more than those. */
const longBytes = 8 << 20;

/** A text that is no JSON, or whose form is none that a storage answers in. */
export class NotJson extends Error {
  override readonly name = "NotJson";
}

/**
 * The value of a text of JSON (RFC 8259) in UTF-8. A long one is read in pieces, the elements of its outermost arrays by and by, so
 * that nothing else waits for it; nesting and the number of values are looked at before anything is made of them. Throws NotJson.
 */
export async function parsedJson(text: Buffer): Promise<unknown> {
  if (text.length <= tinyBytes) return read(text.toString("utf8"));
  const scan = new Scan(text);
  if (text.length <= smallBytes) return scan.whole();
  if (text.length > longBytes) await new Scan(text).through();
  const place = `array ${randomUUID()} `;
  const skeleton: string[] = [];
  const arrays: unknown[][] = [];
  let from = 0;
  let outside = 0;
  let counted = 0;
  const keep = (to: number): void => {
    outside += scan.values - counted;
    if (outside > mostTogether) throw new NotJson(`more than ${mostTogether} values of it lie outside arrays`);
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

/** Goes through a text once, byte by byte, without reading values. */
class Scan {
  at = 0;
  /** How many were passed. */
  values = 0;
  readonly #text: Buffer;
  #depth = 0;
  #rested = 0;

  constructor(text: Buffer) {
    this.#text = text;
  }

  /** The value of a text that is short. */
  whole(): unknown {
    while (this.at < this.#text.length) this.#step();
    return read(this.#text.toString("utf8"));
  }

  /** Goes to the end. */
  async through(): Promise<void> {
    while (this.at < this.#text.length) {
      this.#step();
      if (this.at - this.#rested > pieceBytes) await this.#rest();
    }
  }

  /** Where the next array begins; undefined at the end. */
  async array(): Promise<number | undefined> {
    while (this.at < this.#text.length) {
      if (this.#text[this.at] === openArray) return this.at;
      this.#step();
      if (this.at - this.#rested > pieceBytes) await this.#rest();
    }
    return undefined;
  }

  /** The elements of the array that begins there, some at a time; afterwards the scan is behind it. */
  async *elements(begin: number): AsyncGenerator<readonly unknown[]> {
    const depth = this.#depth;
    this.#step();
    let from = begin + 1;
    let counted = this.values;
    while (this.at < this.#text.length) {
      const byte = this.#text[this.at];
      const inside = this.#depth === depth + 1;
      if (inside && (byte === comma || byte === closeArray)) {
        if (this.values - counted > mostTogether)
          throw new NotJson(`an element of an array has more than ${mostTogether} values`);
        counted = this.values;
        if (byte === closeArray || this.at - from > pieceBytes) {
          yield this.#between(from, this.at, byte === closeArray && from === begin + 1);
          from = this.at + 1;
          await this.#rest();
        }
      }
      this.#step();
      if (this.#depth === depth) return;
      if (this.at - this.#rested > pieceBytes) await this.#rest();
    }
    throw new NotJson("it is not whole");
  }

  #between(from: number, to: number, mayBeEmpty: boolean): readonly unknown[] {
    const list = read(`[${this.#text.toString("utf8", from, to)}]`) as readonly unknown[];
    if (list.length === 0 && !mayBeEmpty) throw new NotJson("it is not JSON");
    return list;
  }

  async #rest(): Promise<void> {
    this.#rested = this.at;
    await breathe();
  }

  /** One byte further, or behind a string. */
  #step(): void {
    const byte = this.#text[this.at];
    this.at++;
    if (byte === quote) this.#string();
    else if (byte === openArray || byte === openObject) this.#enter();
    else if (byte === closeArray || byte === closeObject) this.#depth--;
    else if (byte === comma || byte === colon) this.#count();
  }

  #string(): void {
    for (;;) {
      const end = this.#text.indexOf(quote, this.at);
      if (end < 0) throw new NotJson("it is not whole");
      let slashes = 0;
      while (this.#text[end - 1 - slashes] === backslash) slashes++;
      this.at = end + 1;
      if (slashes % 2 === 0) return;
    }
  }

  #enter(): void {
    this.#depth++;
    if (this.#depth > deepest) throw new NotJson(`it is nested deeper than ${deepest} levels`);
    this.#count();
  }

  #count(): void {
    this.values++;
    if (this.values > mostValues) throw new NotJson(`it has more than ${mostValues} values`);
  }
}
