import { linesOf } from "../../terminal/table.ts";
import { visible } from "../../terminal/terminal.ts";

/** The line width for people, in characters. */
const width = 100;

/** The lines of an explanation, and what is wrong in the order in which it was found. */
export class Findings {
  readonly #lines: string[] = [];
  readonly wrong: string[] = [];

  /** A station on the way, and what is wrong there. */
  add(station: string, text: string, ...wrong: readonly (string | undefined)[]): void {
    this.#lines.push(
      ...linesOf(`${station.padEnd(11)} ${visible(text)}`, width).map((line, at) =>
        at ? `            ${line}` : line,
      ),
    );
    for (const each of wrong.filter(found => found !== undefined)) {
      this.wrong.push(`${station}: ${each}`);
      this.#lines.push(...linesOf(`! ${visible(each)}`, width - 12).map(line => `            ${line}`));
    }
  }

  text(): string {
    const [first] = this.wrong;
    const end =
      first === undefined ? "Nothing is wrong that can be seen from here." : `It hangs here: ${visible(first)}`;
    return `${this.#lines.join("\n")}\n\n${linesOf(end, width).join("\n  ")}\n`;
  }
}
