import { expect, test } from "bun:test";
import { LineSplitter } from "../../../lib/copies/rsync/rsync.ts";

/** The lines of an output that arrives in these parts. */
function linesOf(...parts: readonly (string | Uint8Array)[]): readonly string[] {
  const all: string[] = [];
  const lines = new LineSplitter(line => void all.push(line));
  for (const part of parts) lines.add(typeof part === "string" ? Buffer.from(part) : part);
  lines.end();
  return all;
}

test.each<[readonly (string | Uint8Array)[], readonly string[]]>([
  [[], []],
  [["a\nb"], ["a", "b"]],
  [
    ["a", "b\n", "\nc\n"],
    ["ab", "", "c"],
  ],
  [
    ["x\n\r 1\r 2\r", " 3\r 4\n", "y\n"],
    ["x", " 2", " 4", "y"],
  ],
  [
    ["\r 1", "2\r"],
    ["", " 12"],
  ],
  [[Uint8Array.of(0xc3), Uint8Array.of(0xbc, 0x0a)], ["ü"]],
])("%j is split into lines, of those that replace each other only the last of each part", (parts, expected) => {
  expect(linesOf(...parts)).toEqual(expected);
});

test("a line about the longest path, of bytes that rsync escapes, is complete however it arrives", () => {
  // PATH_MAX (linux/limits.h), in which each byte becomes five characters (rsync(1), --8-bit-output); rsync writes 4096 bytes at a time.
  const text = `${"\\#344".repeat(4095)} is over max-size`;
  expect(linesOf(...(text.match(/.{1,4096}/g) ?? []), "\n")).toEqual([text]);
});

test("a line without end takes no unlimited memory", () => {
  expect(
    linesOf(
      ..."x"
        .repeat(100)
        .split("")
        .map(each => each.repeat(1000)),
    ).join("").length,
  ).toBeLessThan(30_000);
});
