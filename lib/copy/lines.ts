/** The longest line that is kept, in characters; the rest of a longer one is dropped. */
const longest = 8192;

/**
 * Splits the output of a program into lines. Of lines that replace each other by carriage returns (rsync writes its progress so, for each
 * file), only the last one of each chunk is passed on.
 */
export class LinesOfBytes {
  readonly #decoder = new TextDecoder();
  readonly #line: (line: string) => void;
  #rest = "";

  /** `line` gets each line without its end. */
  constructor(line: (line: string) => void) {
    this.#line = line;
  }

  add(chunk: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split("\n");
    const rest = lines.pop() ?? "";
    for (const line of lines) this.#line(line.slice(line.lastIndexOf("\r") + 1));
    const end = rest.lastIndexOf("\r");
    if (end >= 0) this.#line(rest.slice(rest.lastIndexOf("\r", end - 1) + 1, end));
    this.#rest = rest.slice(end + 1, end + 1 + longest);
  }

  /** Ends the output: passes on a last line without a line break. */
  end(): void {
    if (this.#rest !== "") this.#line(this.#rest);
    this.#rest = "";
  }
}
