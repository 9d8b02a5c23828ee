import { readFileSync } from "node:fs";
import { Glob } from "bun";

// Lists the assumptions of the tests' fakes: sentences after "assumed:" in comments, without a known source. Every other
// rule of a fake names the version and file, manual page or document that it follows.

const folder = "tests/fakes";

/** The assumptions in a text, with their line numbers. */
function assumptionsIn(text: string): readonly { readonly line: number; readonly words: string }[] {
  return [...text.matchAll(/\bassumed: ((?:(?!\*\/|\n\s*\n|\n\s*(?!\/\/|\*)\S).|\n\s*(?:\/\/|\*(?!\/)))*)/g)].map(
    match => ({
      line: text.slice(0, match.index).split("\n").length,
      words: (match[1] ?? "").replaceAll(/\s*\n\s*(?:\/\/|\*)\s*/g, " ").trim(),
    }),
  );
}

/** The fake that a file belongs to: its folder, or the file where it has none. */
const fakeOf = (file: string): string => file.split("/")[0] ?? file;

const files = [...new Glob("**/*.{ts,py}").scanSync(folder)].sort();
const counts = new Map<string, number>(files.map(file => [fakeOf(file), 0]));
for (const file of files) {
  for (const { line, words } of assumptionsIn(readFileSync(`${folder}/${file}`, "utf8"))) {
    counts.set(fakeOf(file), (counts.get(fakeOf(file)) ?? 0) + 1);
    console.log(`${folder}/${file}:${line}: ${words}`);
  }
}
const each = [...counts].filter(([, count]) => count > 0).map(([fake, count]) => `${fake} ${count}`);
const count = [...counts.values()].reduce((sum, one) => sum + one, 0);
console.log(
  `${count} assumptions in ${files.length} files: ${each.join(", ")}; none in the other ${counts.size - each.length} fakes`,
);
