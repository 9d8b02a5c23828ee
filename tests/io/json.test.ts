import { expect, test } from "bun:test";
import { NotJson, parsedJson } from "../../lib/io/json.ts";

const refusal = (text: string): string => {
  try {
    return `read ${typeof parsedJson(Buffer.from(text))}`;
  } catch (error) {
    return error instanceof NotJson ? error.message : String(error);
  }
};

test("a text that no storage answers is refused before it costs memory", () => {
  const forms: Readonly<Record<string, readonly [text: string, why: string]>> = {
    "deep arrays": ["[".repeat(8_000_000), "more than"],
    "deep objects": ['{"a":'.repeat(1_000_000), "not JSON"],
    "very many values": [`[${"1,".repeat(8_000_000)}1]`, "more than"],
    "a cut text": ['{"result": [1, 2', "not JSON"],
  };
  for (const [name, [text, why]] of Object.entries(forms))
    expect([name, refusal(text)]).toEqual([name, expect.stringContaining(why)]);
});

test("one row in which 10,000 others are nested is read", () => {
  const shown = { value: "v", rawvalue: "v", parsed: "v", source: "LOCAL", source_info: null };
  const row = (id: string, children: readonly object[]) => ({
    id,
    children,
    ...Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`property_${n}`, shown])),
  });
  const rows = [
    row(
      "tank/v",
      Array.from({ length: 10_000 }, (_, n) => row(`tank/v/pvc-${n}`, [])),
    ),
  ];
  expect(parsedJson(Buffer.from(JSON.stringify(rows)))).toEqual(rows);
});
