import { expect, test } from "bun:test";
import { rendered } from "../../lib/core/template.ts";

const values = {
  name: "pvc-1",
  parameters: { "csi.storage.k8s.io/pvc/name": "data", plain: "<&\"'>", empty: "" },
  csi: { version: "1" },
};

test.each([
  ["{{ name }}", "pvc-1"],
  ["{{name}}-{{{ name }}}", "pvc-1-pvc-1"],
  ["{{ parameters.[csi.storage.k8s.io/pvc/name] }}", "data"],
  ["{{ parameters.plain }} {{ csi.version }}", "<&\"'> 1"],
  ["a{{ absent }}b{{ parameters.absent.deeper }}c{{ parameters }}d", "abcd"],
  ["{{ constructor }}{{ name.length }}", ""],
  ["{{#if parameters.plain}}yes{{else}}no{{/if}}!", "yes!"],
  ["{{#if parameters.empty}}yes{{else}}no {{ name }}{{/if}}", "no pvc-1"],
  ["{{#if absent}}a{{#if name}}b{{/if}}c{{/if}}d", "d"],
  ["{{#if absent}}yes{{else}}no{{#if name}}!{{/if}}{{/if}}", "no!"],
  ["no placeholder", "no placeholder"],
])("the template %p gives %p", (template, text) => {
  expect(rendered(template, values)).toBe(text);
});
