import { expect, test } from "bun:test";
import { volumeName } from "../../lib/core/name.ts";

const uid = "pvc-550e8400-e29b-41d4-a716-446655440000";
const claim = (namespace: string, name: string) => ({
  "csi.storage.k8s.io/pvc/namespace": namespace,
  "csi.storage.k8s.io/pvc/name": name,
});
const ofClaim = "{{ parameters.[csi.storage.k8s.io/pvc/namespace] }}-{{ parameters.[csi.storage.k8s.io/pvc/name] }}";
const digest = "4f1ffa0d8a50d9e457a8";

test.each([
  ["no template", undefined, claim("shop", "data"), uid],
  ["an empty template", "", claim("shop", "data"), uid],
  ["namespace and name", ofClaim, claim("shop", "data"), `shop-data-${digest}`],
  ["dots, blanks and slashes", "{{ name }} / a.b", {}, `${uid}-a-b-${digest}`],
  ["a start and an end that storages refuse", "_-x.", {}, `x-${digest}`],
  ["dots of a claim's name", ofClaim, claim("shop", "my.data.v2"), `shop-my-data-v2-${digest}`],
  ["a choice", "{{#if parameters.tier}}{{ parameters.tier }}{{else}}plain{{/if}}", { tier: "gold" }, `gold-${digest}`],
])("the name of a volume by %s", (_title, nameTemplate, parameters, name) => {
  const all = nameTemplate === undefined ? parameters : { ...parameters, nameTemplate };
  expect(volumeName(uid, all)).toBe(name);
});

test("a claim that is created again, or has a name with the same characters, gets another volume", () => {
  const other = uid.replace("0000", "0001");
  const parameters = { ...claim("shop", "data"), nameTemplate: ofClaim };
  expect(volumeName(other, parameters)).toMatch(/^shop-data-[0-9a-f]{20}$/);
  expect(volumeName(other, parameters)).not.toBe(volumeName(uid, parameters));
  const alike = { ...claim("shop-data", "x"), nameTemplate: ofClaim };
  expect(volumeName(other, { ...claim("shop", "data-x"), nameTemplate: ofClaim })).not.toBe(volumeName(uid, alike));
});

test("the longest claim leaves room for the connection's name in the 128 bytes of a handle", () => {
  const parameters = { ...claim("n".repeat(63), "c".repeat(253)), nameTemplate: ofClaim };
  expect(volumeName(uid, parameters)).toHaveLength(81);
});

test.each([
  ["without the claim's name", ofClaim, "need external-provisioner with --extra-create-metadata"],
  ["that is not closed", "{{ name", "has an unclosed placeholder"],
  ["that needs more of Handlebars", "{{#each x}}{{/each}}", "which csimux does not support"],
])("a template %s is refused", (_title, nameTemplate, message) => {
  expect(() => volumeName(uid, { nameTemplate })).toThrow(message);
});
