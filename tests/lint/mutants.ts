/** A small random generator with a seed (mulberry32), so that a failing mutant can be made again. */
export function random(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return below => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

type Random = (below: number) => number;
type Mutator = (text: string, pick: Random) => string;

const lines = (text: string, change: (all: string[], pick: Random) => void, pick: Random): string => {
  const all = text.split("\n");
  change(all, pick);
  return all.join("\n");
};

const onLine =
  (change: (line: string, pick: Random) => string): Mutator =>
  (text, pick) =>
    lines(
      text,
      all => {
        const index = pick(all.length);
        all[index] = change(all[index] ?? "", pick);
      },
      pick,
    );

const values = [
  "",
  "[]",
  "{}",
  "[1, 2]",
  "{a: b}",
  "{ toString: a }",
  "[{ toString: [a] }]",
  "null",
  "true",
  "12345678901234567890123",
  "1e999",
  ".nan",
  "0x1F",
  "0777",
  '""',
  "'x",
  '"',
  "|",
  ">-",
  "*x",
  "&x",
  "&x y",
  "!!int z",
  "!a b",
  "- -",
  "? x",
  "%",
  "@",
  "`",
  "#",
  "{{ x }}",
  "${env:X}",
  "${X}",
  "\u0000",
  "\u{1F4A9}",
  "../..",
  "a\tb",
];

const pickOf = (all: readonly string[], pick: Random): string => all[pick(all.length)] ?? "";

/** Every way to spoil a file that the fuzz test knows. */
export const mutators: Readonly<Record<string, Mutator>> = {
  "byte flip": (text, pick) => {
    const bytes = Buffer.from(text);
    const at = pick(bytes.length);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << pick(8));
    return bytes.toString("utf8");
  },
  "deleted line": (text, pick) => lines(text, all => void all.splice(pick(all.length), 1), pick),
  "deleted lines": (text, pick) => lines(text, all => void all.splice(pick(all.length), 1 + pick(4)), pick),
  "doubled line": (text, pick) =>
    lines(
      text,
      all => {
        const at = pick(all.length);
        all.splice(at, 0, all[at] ?? "");
      },
      pick,
    ),
  "moved line": (text, pick) =>
    lines(text, all => void all.splice(pick(all.length), 0, ...all.splice(pick(all.length), 1)), pick),
  "other value": onLine((line, pick) => line.replace(/:.*$/, `: ${pickOf(values, pick)}`)),
  "other key": onLine((line, pick) =>
    line.replace(
      /^(\s*)[^:]*:/,
      `$1${pickOf([...values, "driver", "proxy", "nfs", "__proto__", "constructor", "toString", "<<"], pick)}:`,
    ),
  ),
  item: onLine((line, pick) => `${line.replace(/^(\s*)/, "$1- ")}${pick(2) ? "" : "\n  - x"}`),
  tab: onLine(line => `\t${line}`),
  indentation: onLine((line, pick) => `${" ".repeat(pick(5))}${line.trimStart()}`),
  "anchor and alias": (text, pick) =>
    lines(
      text,
      all => {
        const at = pick(all.length);
        all[at] = (all[at] ?? "").replace(/: (\S)/, ": &a $1");
        const other = pick(all.length);
        all[other] = (all[other] ?? "").replace(/:.*$/, ": *a");
      },
      pick,
    ),
  "merge key": onLine(
    (line, pick) =>
      `${line}\n${/^\s*/.exec(line)?.[0] ?? ""}<<: ${pickOf(["{a: 1}", "[{a: 1}, {b: 2}]", "*x", "x", "&m {<<: *m}"], pick)}`,
  ),
  CRLF: text => text.replaceAll("\n", "\r\n"),
  CR: onLine(
    line =>
      `${line}
`,
  ),
  "byte order mark": (text, pick) => (pick(2) ? `\uFEFF${text}` : text.replace("\n", "\n\uFEFF")),
  "document marker": onLine((line, pick) => `${line}\n${pickOf(["---", "...", "--- x", "%YAML 1.1\n---"], pick)}`),
  "cut off": (text, pick) => text.slice(0, pick(text.length)),
  joined: (text, pick) => text.slice(0, pick(text.length)) + text.slice(pick(text.length)),
  "long line": onLine(line => `${line}${"x".repeat(5000)}`),
  deep: onLine((line, pick) => line.replace(/:.*$/, `: ${pickOf(["[", "{a: ", "- "], pick).repeat(1 + pick(300))}`)),
};
