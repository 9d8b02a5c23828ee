import { expect, test } from "bun:test";
import { drawn } from "../sample.ts";
import { connections } from "./cases/connections.ts";
import { check } from "./checking.ts";
import { examples } from "./examples/index.ts";

const sets = [
  ...Object.entries(connections).map(([name, text]) => ({ [`${name}.yaml`]: text })),
  ...Object.values(examples).flatMap(({ bad, good }) => [bad, good]),
];

/** Each line with a value, with a mapping in its place that JavaScript cannot convert to text. */
const places = sets.flatMap(files =>
  Object.entries(files).flatMap(([name, text]) =>
    text.split("\n").flatMap((line, at, all) => {
      const [, before] = /^(\s*(?:- )?[\w./-]+:)\s+\S/.exec(line) ?? /^(\s*-)\s+[^:]+$/.exec(line) ?? [];
      if (before === undefined) return [];
      return ["{ toString: [a] }", "[{ toString: [a] }]"].map(value => ({
        how: `${name}, line ${at + 1}: ${value}`,
        files: { ...files, [name]: all.with(at, `${before} ${value}`).join("\n") },
      }));
    }),
  ),
);

test("a mapping with a key toString in place of any value stops no check", () => {
  for (const { how, files } of drawn(places, 300)) expect(() => check(files), how).not.toThrow();
}, 600_000);
