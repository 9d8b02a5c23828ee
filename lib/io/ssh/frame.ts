import { Capture, Data } from "../capture.ts";
import { defaultMaxBytes } from "../runner.ts";
import { quoted, type Script, type Step } from "../script.ts";

/** Marks the end of a step in a shell's output: this word, a colon and the result, on a separate line. */
export type Tag = string;

/** The end of a part of the output: the exit code of a step, or one of the words below. */
export type StepEnd = number | (typeof words)[number];

/** The step was skipped, the script's time limit had passed before it, or the script has ended. */
const words = ["skipped", "late", "end"] as const;

const variable = (step: number): string => `v${step}`;
const status = (step: number): string => `s${step}`;

function stepText(step: Step, index: number, script: Script): string {
  const [program, ...rest] = step.argv;
  const word = (part: (typeof rest)[number]): string => {
    if (typeof part === "string") return quoted(part);
    return `"$${variable(script.steps.findIndex(({ name }) => name === part.outputOf))}"`;
  };
  const command = [quoted(program), ...rest.map(word)].join(" ");
  const fed = step.stdin === undefined ? command : `printf %s ${quoted(step.stdin)} | ${command}`;
  const used = script.steps.some(({ argv }) =>
    argv.some(part => typeof part !== "string" && part.outputOf === step.name),
  );
  const run = used ? `${variable(index)}=$(${fed}); s=$?; printf '%s\\n' "$${variable(index)}"` : `${fed}; s=$?`;
  const statusOf = (wanted: string): string => `$${status(script.steps.findIndex(({ name }) => name === wanted))}`;
  const conditions = [
    ...(step.onlyAfter === undefined ? [] : [`[ ${statusOf(step.onlyAfter)} = 0 ]`]),
    ...(step.unless === undefined ? [] : [`[ ${statusOf(step.unless)} != 0 ]`]),
  ];
  const first =
    conditions.length === 0 ? "" : `{ ${conditions.join(" && ")}; } || { ${status(index)}=1; m skipped; false; } && `;
  const stop = step.onFailure === "go-on" ? "" : " [ $s = 0 ] || return 0;";
  return `${first}{ t || return 0; ${run}; ${status(index)}=$s; m $s;${stop} }`;
}

/**
 * The shell function `now`, which sets n to the seconds of a clock of the host; the script in the same shell needs it.
 * On Linux it reads the uptime from a file (proc(5)), which needs no program and cannot be set; elsewhere it calls
 * date(1).
 */
export const clockText = `now() { n=$(date +%s); }
if { read -r n rest </proc/uptime; } 2>/dev/null; then now() { { read -r n rest </proc/uptime; } 2>/dev/null; n=\${n%%.*}; }; fi`;

/**
 * The text that makes a POSIX shell run the script and mark the end of each step on stdout and stderr. It is a function, which
 * needs no process of its own, and its call: a shell that receives only part of it runs nothing. No step starts when its marker can no
 * longer be written, because the connection is gone, nor after `lastSecond` by the host's clock.
 */
export function scriptText(script: Script, tag: Tag, lastSecond: number): string {
  return [
    `m() { printf '${tag}:%s\\n' "$1" && printf '${tag}:%s\\n' "$1" >&2 || exit 1; }`,
    `t() { now; [ "$n" -le ${lastSecond} ] || { m late; return 1; }; }`,
    "steps() {",
    ...script.steps.map((step, index) => stepText(step, index, script)),
    "} </dev/null",
    "steps",
    `printf '${tag}:end\\n'; printf '${tag}:end\\n' >&2`,
    "",
  ].join("\n");
}

/** The longest word of a marker, in bytes; an exit code and a length need fewer. */
const longestWord = 40;

/** The largest stream of a script, in bytes: the longest listing and the other outputs. */
const longestStream = 96 << 20;

interface StepOutput {
  readonly text: string;
  readonly mark: StepEnd;
}

/** Splits one stream of a running script at its markers, and keeps no more than its steps may write. */
export class OutputParser {
  readonly parts: StepOutput[] = [];
  readonly #tag: Buffer;
  readonly #most: number;
  readonly #collector: (index: number) => Data | Capture;
  #current: Data | Capture;
  #rest: Buffer = Buffer.alloc(0);
  #bytes = 0;

  /** `most`: the largest number of parts. `collector` returns the collector of the n-th part, counted from 0. */
  constructor(tag: Tag, most: number, collector: (index: number) => Data | Capture) {
    this.#tag = Buffer.from(`${tag}:`);
    this.#most = most;
    this.#collector = collector;
    this.#current = collector(0);
  }

  /** Whether the end marker of the script has arrived. */
  get ended(): boolean {
    return this.parts.at(-1)?.mark === "end";
  }

  /**
   * Returns what is wrong with the stream, after which it must not be read any further: "disorder" if the markers are out of order, or
   * what Data.add returns for a part.
   */
  add(chunk: Uint8Array): string | undefined {
    this.#bytes += chunk.length;
    if (this.#bytes > longestStream) return "overflow";
    this.#rest = this.#rest.length === 0 ? Buffer.from(chunk) : Buffer.concat([this.#rest, chunk]);
    for (;;) {
      const at = this.#rest.indexOf(this.#tag);
      if (at < 0) return this.#keep(Math.max(0, this.#rest.length - this.#tag.length));
      if (this.ended || this.parts.length >= this.#most) return "disorder";
      const end = at + this.#tag.length;
      const line = this.#rest.subarray(end, end + longestWord).indexOf("\n");
      if (line < 0) return this.#rest.length - end < longestWord ? this.#keep(at) : "disorder";
      const fault = this.#keep(at);
      if (fault !== undefined) return fault;
      const word = this.#rest.subarray(this.#tag.length, this.#tag.length + line).toString("latin1");
      this.parts.push({ text: this.#current.text(), mark: words.find(each => each === word) ?? Number(word) });
      this.#rest = this.#rest.subarray(this.#tag.length + line + 1);
      this.#current = this.#collector(this.parts.length);
    }
  }

  /** Adds the first `bytes` of the buffered data to the current part. */
  #keep(bytes: number): string | undefined {
    const fault = this.#current.add(this.#rest.subarray(0, bytes));
    this.#rest = this.#rest.subarray(bytes);
    return fault ?? undefined;
  }
}

/** The reader of a script's stdout, which is data. */
export const dataParts = (tag: Tag, script: Script): OutputParser =>
  new OutputParser(tag, script.steps.length + 1, index => {
    const { maxBytes = defaultMaxBytes, check } = script.steps[index] ?? {};
    return new Data(maxBytes, check?.());
  });

/** The reader of a script's stderr, which is messages. */
export const messageParts = (tag: Tag, script: Script): OutputParser =>
  new OutputParser(tag, script.steps.length + 1, () => new Capture());
