/** The longest line that is kept, in characters; the rest of a longer one is dropped. */
const longest = 8192;

/** Splits the output of a program into lines, which end with a line feed or, for progress, with a carriage return. */
export class LinesOfBytes {
  readonly #decoder = new TextDecoder();
  readonly #line: (line: string) => void;
  #rest = "";

  /** `line` gets each line without its end. */
  constructor(line: (line: string) => void) {
    this.#line = line;
  }

  add(chunk: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split(/[\r\n]/);
    this.#rest = (lines.pop() ?? "").slice(0, longest);
    for (const line of lines) this.#line(line);
  }

  /** The output has ended: passes on what has no end. */
  end(): void {
    if (this.#rest !== "") this.#line(this.#rest);
    this.#rest = "";
  }
}
