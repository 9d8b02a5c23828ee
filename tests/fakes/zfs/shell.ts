import type { Result } from "./run.ts";

/** The words of a command line as a POSIX shell takes them apart: bare ones, and text in single quotes. */
const wordsIn = (text: string): readonly string[] =>
  [...text.matchAll(/(?:'[^']*'|\\.|[^\s';])+|;/g)].map(([word]) =>
    word.replace(
      /'([^']*)'|\\(.)/g,
      (_, quoted: string | undefined, escaped: string | undefined) => quoted ?? escaped ?? "",
    ),
  );

/**
 * Runs a list of commands with "&&", ";" and braces, and nothing else of the language (POSIX.1-2017, Shell 2.9). What all of them
 * said comes together; the code is that of the last one that ran.
 */
export function shell(text: string, run: (argv: readonly string[]) => Result): Result {
  const words = [...wordsIn(text)];
  let [printed, said] = ["", ""];
  const list = (wanted: boolean): number => {
    let code = 0;
    let runs = wanted;
    for (;;) {
      const ended = command(runs);
      if (runs) code = ended;
      let next = words.shift();
      // A list may end with a semicolon.
      if (next === ";" && words[0] === "}") next = words.shift();
      if (next === undefined || next === "}") return code;
      runs = next === "&&" ? runs && code === 0 : wanted;
    }
  };
  const command = (wanted: boolean): number => {
    if (words[0] === "{") {
      words.shift();
      return list(wanted);
    }
    const argv: string[] = [];
    while (words.length > 0 && !["&&", ";", "}"].includes(words[0] ?? "")) argv.push(words.shift() ?? "");
    if (!wanted || argv.length === 0 || argv[0] === ":") return 0;
    const { out, err, code } = run(argv);
    printed += out;
    said += err;
    return code;
  };
  const code = list(true);
  return { out: printed, err: said, code };
}

/** Two commands with a pipe between them. */
interface Pipe {
  readonly from: readonly string[];
  readonly to: readonly string[];
}

/** The pipe of a line that ends with 0 only when both of its ends do (cli-steps.ts, piped); undefined for any other line. */
export function pipeIn(text: string): Pipe | undefined {
  const [, from, to] = /^sent=\$\(\{ \{ (.*); echo \$\? >&3; \} \| (.*) >&2; \} 3>&1\);/s.exec(text) ?? [];
  return from === undefined || to === undefined ? undefined : { from: wordsIn(from), to: wordsIn(to) };
}

/** Runs one; the second command gets what the first one printed. */
export function piped(
  { from, to }: Pipe,
  run: (argv: readonly string[]) => Result,
  runOn: (argv: readonly string[], stream: string) => Result,
): Result {
  const sent = run(from);
  const got = runOn(to, sent.out + (sent.later?.text ?? ""));
  return { out: "", err: sent.err + got.err, code: sent.code === 0 && got.code === 0 ? 0 : 1 };
}

/** Whether a shell changes what must still have a value (lib/drivers/zfs/cli/lock.ts, whileStillText). */
export const isStill = (text: string): boolean => text.includes('if [ -n "$1" ]; then\n  command -v flock');

/** Whether a dataset itself has the value. */
export function still(
  [, property = "", value = "", , dataset = ""]: readonly string[],
  zfs: (argv: readonly string[]) => Result,
): boolean {
  const { out } = zfs(["zfs", "get", "-Hp", "-o", "value,source", property, dataset]);
  return out === `${value}\tlocal\n` || out === `${value}\treceived\n`;
}

/** Whether a shell sets a size that must not be smaller than that of the volume (lib/drivers/zfs/cli/lock.ts, unlessLargerText). */
export const isSize = (text: string): boolean => text.includes('eval "size=');

/** Whether a dataset is larger than that. */
export function isLarger(
  [property = "", bytes = "", , dataset = ""]: readonly string[],
  zfs: (argv: readonly string[]) => Result,
): boolean {
  const { out } = zfs(["zfs", "get", "-Hp", "-o", "value", property, dataset]);
  return BigInt(out.trim()) > BigInt(bytes);
}

/** Of the lines that a program prints those that contain a text, down to the last one, which is known (lib/drivers/zfs/cli/steps.ts, namedText). */
export function named(
  [part = "", parent = "", ...words]: readonly string[],
  zfs: (argv: readonly string[]) => Result,
): Result {
  const all = zfs([...words, parent]);
  if (all.code !== 0) return all;
  const lines = all.out.trimEnd().split("\n");
  if (lines.pop() !== parent) return { out: "", err: `the names below ${parent} are cut\n`, code: 1 };
  const found = lines.filter(line => line.includes(part));
  return { out: [...found, parent, ""].join("\n"), err: "", code: 0 };
}

/** Whether a shell destroys a snapshot that shows what it must (lib/drivers/zfs/cli/destroy.ts, destroySureText). */
export const isSure = (text: string): boolean => text.includes("read=$1 destroy=$2");

/** What such a shell does: it destroys where the answer is one of the others. */
export function sure(
  [read = "", destroy = "", ...answers]: readonly string[],
  zfs: (argv: readonly string[]) => Result,
): Result {
  const { out, code } = shell(read, zfs);
  const isOther = code !== 0 || !answers.some(each => out === `${each}\n`);
  return isOther ? { out: "", err: "", code: 3 } : shell(destroy.replace(/^exec /, ""), zfs);
}
