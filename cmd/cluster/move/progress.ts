import type { Host } from "../../host.ts";
import { size } from "../../status/problems.ts";
import { visible } from "../../terminal/terminal.ts";
import type { PassProgress } from "./controller.ts";

/** The width of the bar, in characters. */
const barWidth = 24;

/** How many percent lie between two lines where there is no terminal. */
const stepPercent = 10;

const percentOf = ({ done, total }: PassProgress): number | undefined =>
  total > 0n ? Math.min(100, Number((done * 100n) / total)) : undefined;

/** One line about a copy: a bar, what was copied, the speed and the time that is left. */
export function progressLine(name: string, progress: PassProgress): string {
  const { done, total, rate } = progress;
  const percent = percentOf(progress);
  const filled = Math.round(((percent ?? 0) * barWidth) / 100);
  const left = rate > 0n && total > done ? Number((total - done) / rate) : undefined;
  return [
    visible(name),
    `[${"#".repeat(filled)}${"-".repeat(barWidth - filled)}]`,
    percent === undefined ? size(Number(done)) : `${percent} %  ${size(Number(done))} of ${size(Number(total))}`,
    ...(rate > 0n ? [`${size(Number(rate))}/s`] : []),
    ...(left === undefined ? [] : [left < 120 ? `${left} s left` : `${Math.round(left / 60)} min left`]),
  ].join("  ");
}

/** Shows several copies at once: bars on a terminal that replace each other, lines elsewhere. */
export class Progress {
  readonly #host: Pick<Host, "out" | "colour">;
  readonly #lines = new Map<string, string>();
  readonly #told = new Map<string, string>();
  #shown = 0;

  constructor(host: Pick<Host, "out" | "colour">) {
    this.#host = host;
  }

  /** News of one copy. */
  tell(name: string, progress: PassProgress): void {
    this.#lines.set(name, progressLine(name, progress));
    if (this.#host.colour) {
      this.#draw();
      return;
    }
    const percent = percentOf(progress);
    const step = percent === undefined ? progress.text : String(Math.floor(percent / stepPercent));
    if (this.#told.get(name) === step) return;
    this.#told.set(name, step);
    this.#host.out(`${visible(name)}: ${visible(progress.text)}\n`);
  }

  /** The end of one copy: its bar becomes this text. */
  end(name: string, text: string): void {
    this.#lines.delete(name);
    this.#told.delete(name);
    this.#clear();
    this.#host.out(`${visible(name)}: ${visible(text)}\n`);
    this.#draw();
  }

  /** Moves to the first of the shown lines and erases them (ECMA-48: CPL, ED). */
  #clear(): void {
    if (this.#shown > 0) this.#host.out(`\x1b[${this.#shown}F\x1b[J`);
    this.#shown = 0;
  }

  #draw(): void {
    if (!this.#host.colour) return;
    this.#clear();
    for (const line of this.#lines.values()) this.#host.out(`${line}\n`);
    this.#shown = this.#lines.size;
  }
}
