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

const files = [...new Glob("**/*.ts").scanSync(folder)].sort();
let count = 0;
for (const file of files) {
  for (const { line, words } of assumptionsIn(readFileSync(`${folder}/${file}`, "utf8"))) {
    count++;
    console.log(`${folder}/${file}:${line}: ${words}`);
  }
}
console.log(`${count} assumptions in ${files.length} files`);
