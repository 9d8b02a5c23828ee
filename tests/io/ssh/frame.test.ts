import { expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import type { Script } from "../../../lib/io/script.ts";
import { clockText, dataParts, messageParts, scriptText } from "../../../lib/io/ssh/frame.ts";

const far = 9_999_999_999;
const run = (text: string): string => execFileSync("sh", { input: text, encoding: "utf8", stdio: "pipe" });
const script: Script = {
  steps: [
    { name: "one", argv: ["printf", "1"] },
    { name: "two", argv: ["printf", "22\n"] },
  ],
};

test("output is complete, however it arrives in pieces", () => {
  const text = Buffer.from(run(`${clockText}\n${scriptText(script, "tag", far)}`));
  for (let size = 1; size <= text.length; size++) {
    const parts = dataParts("tag", script);
    for (let at = 0; at < text.length; at += size) expect(parts.add(text.subarray(at, at + size))).toBeUndefined();
    expect(parts.ended).toBe(true);
    expect(parts.parts.map(part => [part.text, part.mark])).toEqual([
      ["1", 0],
      ["22\n", 0],
      ["", "end"],
    ]);
  }
});

test("text similar to a marker is output", () => {
  const parts = messageParts("tag", script);
  parts.add(Buffer.from("tag ta:tagtag:7\ntag:end\n"));
  expect(parts.parts).toEqual([
    { text: "tag ta:tag", mark: 7 },
    { text: "", mark: "end" },
  ]);
});

test("a shell that receives only part of a script runs none of it", () => {
  const text = scriptText({ steps: [{ name: "one", argv: ["echo", "ran"] }] }, "tag", far);
  const end = text.lastIndexOf("\nsteps\n") + 1;
  for (let length = 0; length < end; length += 3) {
    let output = "";
    try {
      output = run(`${clockText}\n${text.slice(0, length)}`);
    } catch (error) {
      output = String((error as { stdout?: unknown }).stdout ?? "");
    }
    expect([length, output]).toEqual([length, ""]);
  }
});

test("a script past its time limit starts no step", () => {
  const parts = dataParts("tag", script);
  parts.add(Buffer.from(run(`${clockText}\n${scriptText(script, "tag", 1)}`)));
  expect(parts.parts.map(part => part.mark)).toEqual(["late", "end"]);
});

const one: Script = { steps: [{ name: "one", argv: ["true"], maxBytes: 200 << 20 }] };

test("a stream that no script could write is refused before it is stored", () => {
  const digits = Buffer.from("1".repeat(64));
  for (const parts of [dataParts("tag", one), messageParts("tag", one)]) {
    expect(parts.add(Buffer.from("out\ntag:"))).toBeUndefined();
    expect(parts.add(digits)).toBe("disorder");
  }
  for (const parts of [dataParts("tag", one), messageParts("tag", one)]) {
    expect(parts.add(Buffer.from("tag:0\n"))).toBeUndefined();
    expect(parts.add(Buffer.from("tag:end\n"))).toBeUndefined();
    expect(parts.add(Buffer.from("tag:0\n"))).toBe("disorder");
  }
  expect(dataParts("tag", one).add(Buffer.from("tag:0\n".repeat(1000)))).toBe("disorder");
});

test("the total size of a stream is limited, whatever the limits of its parts", () => {
  const chunk = Buffer.alloc(1 << 20);
  for (const parts of [dataParts("tag", one), messageParts("tag", one)]) {
    let megabytes = 0;
    while (parts.add(chunk) === undefined && megabytes < 200) megabytes++;
    expect(megabytes).toBe(96);
  }
});
