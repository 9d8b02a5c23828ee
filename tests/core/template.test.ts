import { expect, test } from "bun:test";
import { rendered, templateFault } from "../../lib/core/template.ts";

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
  ["{{ this.name }}-{{ ./name }}-{{ @root.parameters.[plain] }}", "pvc-1-pvc-1-<&\"'>"],
])("the template %p gives %p", (template, text) => {
  expect(templateFault(template)).toBeUndefined();
  expect(rendered(template, values)).toBe(text);
});

test.each([
  '{{ lookup parameters "plain" }}',
  "{{ name parameters.plain }}",
  "{{~ name ~}}",
  "{{ ../name }}",
  "{{ parameters/plain }}",
  '{{ "name" }}',
  "{{ name. }}",
  "{{#if name}}a{{else if parameters.plain}}b{{/if}}",
  "{{#if (lookup parameters 'plain')}}a{{/if}}",
  "{{#each parameters}}{{ this }}{{/each}}",
  "{{! a comment }}",
])("what the template %p means in Handlebars would be lost, and with it the difference between names", template => {
  expect(templateFault(template)).toContain("does not support");
});
