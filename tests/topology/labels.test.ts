import { expect, test } from "bun:test";
import { isLabelKey } from "../../lib/topology/labels.ts";

const label = "a".repeat(49);
const dnsName = (last: string): string => [label, label, label, label, label, last].join(".");

test.each([
  ["zone", true],
  ["t.example/zone", true],
  [`${dnsName("abc")}/zone`, true],
  [`${dnsName("abcd")}/zone`, false],
  [`${"a".repeat(64)}.example/zone`, false],
  ["T.example/zone", false],
  ["/zone", false],
  ["t.example/", false],
  ["t.example/a/b", false],
])("%s as the key of a label: %j", (text, good) => {
  expect(isLabelKey(text)).toBe(good);
});
