import { describe, expect, test } from "bun:test";
import { check } from "./checking.ts";

const base = "driver: nfs-client\nnfs:\n  shareHost: a\n  shareBasePath: /a\n  controllerBasePath: /b\n";
const gist = (text: string) =>
  check({ "c1.yaml": text }).map(({ line, rule, message }) => `${line} ${rule} ${message}`);

describe("suppression comments", () => {
  test.each([
    ["behind the line", `${base}  colour: red # csimux-ignore unknown-key\n`],
    ["on a line of their own, for the next line", `${base}  # csimux-ignore unknown-key\n\n  # why\n  colour: red\n`],
    ["naming several rules", `${base}  colour: red # csimux-ignore unknown-key, \n`],
  ])("work %s", (_where, text) => {
    expect(gist(text)).toEqual([]);
  });

  test("do not suppress what makes a file unusable", () => {
    expect(gist(`${base}  requireMount: "yes" # csimux-ignore wrong-type\n`)).toHaveLength(1);
  });

  test("suppress only the rule that they name", () => {
    expect(gist(`${base}  colour: red # csimux-ignore missing-key\n`)).toEqual([
      '6 unknown-key unknown key "colour"',
      '6 unused-suppression nothing on this line breaks the rule "missing-key"',
    ]);
  });

  test("must name a rule that exists", () => {
    expect(gist(`${base}  # csimux-ignore\n  colour: red # csimux-ignore unknwon-key\n`)).toEqual([
      "6 unused-suppression this comment does not name a rule",
      '7 unknown-key unknown key "colour"',
      '7 unused-suppression there is no rule "unknwon-key"',
    ]);
  });

  test("that suppress nothing are warnings", () => {
    expect(gist(`${base}# csimux-ignore unknown-key\n`)).toEqual([
      '6 unused-suppression nothing on this line breaks the rule "unknown-key"',
    ]);
  });

  test("work inside a Secret, in a literal block and in base64", () => {
    const text = `${base}  colour: red # csimux-ignore unknown-key\n`;
    const block = text.replace(/^/gm, "    ");
    const secret = `apiVersion: v1\nkind: Secret\nstringData:\n  a.yaml: |\n${block}\ndata:\n  b.yaml: ${Buffer.from(text.replace("/a", "/c")).toString("base64")}\n`;
    expect(check({ "s.yaml": secret }).map(({ rule }) => rule)).toEqual([]);
  });
});
