import { describe, expect, test } from "bun:test";
import { NotJson, parsedJson } from "../../lib/io/json.ts";

const parsed = (text: string): Promise<unknown> => parsedJson(Buffer.from(text));
const refused = (text: string): Promise<string> =>
  parsed(text).then(
    () => "read",
    (error: unknown) => (error instanceof NotJson ? error.message : String(error)),
  );

const row = (n: number) => ({
  id: `tank/k8s/pvc-${n}`,
  text: 'quotes " and \\ and [ ] { } , : ü €  \u2028 \\"',
  properties: { used: { rawvalue: String(n), parsed: n }, list: [n, [n], { n }], none: null, yes: true, few: -1.5e-3 },
});

describe("a text of JSON is read in pieces as it is in one go", () => {
  const rows = Array.from({ length: 5000 }, (_, n) => row(n));
  const shapes: Readonly<Record<string, unknown>> = {
    "a list": rows,
    "an answer of JSON-RPC": { jsonrpc: "2.0", id: 7, result: rows },
    "an answer of DSM": { data: { luns: rows, total: 5000, none: [], two: [[], [[]], 1] }, success: true },
    "a long word": { result: "x".repeat(20 << 20), list: [] },
    "nothing much": [],
  };
  for (const [name, value] of Object.entries(shapes))
    test(name, async () => {
      for (const space of [undefined, 1]) expect(await parsed(JSON.stringify(value, null, space))).toEqual(value);
    });

  test("and a text that is cut or changed anywhere is refused as it is in one go", async () => {
    const text = JSON.stringify({ result: rows.slice(0, 1500) });
    let seed = 7;
    const random = (n: number): number => {
      seed = (seed * 1103515245 + 12345) % 2 ** 31;
      return seed % n;
    };
    for (let n = 0; n < 60; n++) {
      const at = random(text.length);
      const other = [...'"[]{},:\\x1'][random(10)] ?? "";
      const changed = n % 2 === 0 ? text.slice(0, at) : text.slice(0, at) + other + text.slice(at + 1);
      let whole: unknown = "refused";
      try {
        whole = JSON.parse(changed);
      } catch {}
      expect(await parsed(changed).catch(() => "refused")).toEqual(whole);
    }
  }, 60_000);
});

describe("a form that no storage answers in is refused before anything is made of it", () => {
  const forms: Readonly<Record<string, readonly [string, string]>> = {
    "deep arrays": ["[".repeat(5_000_000), "nested deeper"],
    "deep objects": ['{"a":'.repeat(1_000_000), "nested deeper"],
    "a short text that is deep": [`${"[".repeat(3000)}${"]".repeat(3000)}`, "nested deeper"],
    "very many values": [`[${"1,".repeat(5_000_000)}1]`, "more than"],
    "one element of many values": [`[[${"1,".repeat(600_000)}1]]`, "an element of an array has more than"],
    "many values outside arrays": [`{"a":{${'"b":1,'.repeat(600_000)}"c":1}}`, "outside arrays"],
  };
  for (const [name, [text, why]] of Object.entries(forms))
    test(name, async () => {
      const from = performance.now();
      expect(await refused(text)).toContain(why);
      expect(performance.now() - from).toBeLessThan(3000);
    });
});

test("20 MiB of rows are parsed without blocking other work for long", async () => {
  const text = Buffer.from(JSON.stringify({ id: 1, result: Array.from({ length: 110_000 }, (_, n) => row(n)) }));
  expect(text.length).toBeGreaterThan(20 << 20);
  // Processor time of this process: other programs on the machine do not count.
  const spent = () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  };
  let longest = 0;
  let last = spent();
  const sampling = setInterval(() => {
    longest = Math.max(longest, spent() - last);
    last = spent();
  }, 1);
  expect(Object.keys((await parsedJson(text)) as object)).toEqual(["id", "result"]);
  clearInterval(sampling);
  expect(longest).toBeLessThan(200);
}, 60_000);
