import { describe, expect, test } from "bun:test";
import type { GenericSchema } from "valibot";
import {
  flag,
  list,
  mapOf,
  oneOf,
  optional,
  path,
  port,
  record,
  scalar,
  secret,
  template,
  text,
} from "../../lib/schema/parts.ts";
import { blockSize } from "../../lib/schema/storage.ts";
import { type JsonSchema, jsonSchema } from "../../scripts/generate/json-schema.ts";

const a = { description: "a key" };
const reference = { type: "string", pattern: "\\$\\{env:[A-Za-z_]" };

const forms: readonly (readonly [what: string, schema: GenericSchema, form: JsonSchema])[] = [
  ["text", text(a), { description: "a key", type: "string" }],
  [
    "a number within limits, or a reference",
    port(a),
    {
      description: "a key",
      anyOf: [{ type: "integer", minimum: 1, maximum: 65535 }, reference],
    },
  ],
  ["true or false, or a reference", flag(a), { description: "a key", anyOf: [{ type: "boolean" }, reference] }],
  ["one of a few words", oneOf(["x", "y"], a), { description: "a key", enum: ["x", "y"] }],
  [
    "a pattern, which a reference passes",
    path(a),
    {
      description: "a key",
      type: "string",
      pattern: "^\\/|\\$\\{env:[A-Za-z_]",
    },
  ],
  ["a template, in which nothing is expanded", template(a), { description: "a key", type: "string" }],
  ["several types", scalar(a), { description: "a key", type: ["string", "number", "boolean"] }],
  [
    "words that are offered with other spellings",
    blockSize(a),
    {
      description: "a key",
      anyOf: [{ enum: ["512", "1K", "2K", "4K", "8K", "16K", "32K", "64K", "128K"] }, { type: ["string", "number"] }],
    },
  ],
  [
    "a list",
    list(text(a), a),
    { description: "a key", type: "array", items: { description: "a key", type: "string" } },
  ],
  [
    "free keys, which may be empty",
    mapOf(text(a), a),
    {
      description: "a key",
      type: "object",
      additionalProperties: { description: "a key", type: ["string", "null"] },
    },
  ],
  [
    "a key that may be absent or empty",
    optional(text(a), "x"),
    {
      description: "a key",
      type: ["string", "null"],
      default: "x",
    },
  ],
  [
    "unit, absence and example",
    text({ ...a, unit: "ms", absent: "none", example: "3" }),
    {
      description: "a key (unit: ms; when absent: none)",
      type: "string",
      examples: ["3"],
    },
  ],
];

describe("a JSON Schema for editors", () => {
  test.each(forms)("says %s", (_, schema, form) => {
    expect(jsonSchema(schema)).toEqual(form);
  });

  test("asks for required keys in any of their spellings and knows no others", () => {
    const schema = record(
      { a: text(a), b: secret(a), c: optional(text(a)) },
      { aliases: { bb: "b" }, ignored: { old: "it is gone" } },
    );
    expect(jsonSchema(schema)).toEqual({
      type: "object",
      properties: {
        a: { description: "a key", type: "string" },
        b: { description: "a key", type: "string", minLength: 1 },
        bb: { deprecated: true, description: 'another spelling of "b"; write that' },
        bFile: { type: "string", description: "path of a file whose content is: a key" },
        c: { description: "a key", type: ["string", "null"] },
        old: { deprecated: true, description: "has no effect: it is gone" },
      },
      required: ["a"],
      allOf: [{ anyOf: [{ required: ["b"] }, { required: ["bb"] }, { required: ["bFile"] }] }],
      additionalProperties: false,
    });
  });
});
