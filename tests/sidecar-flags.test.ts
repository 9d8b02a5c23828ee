import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { parseAllDocuments } from "yaml";
import { isMapping } from "../lib/core/mapping.ts";
import { below } from "../scripts/check/below.ts";

const folder = new URL("../examples/", import.meta.url);
const files = [
  ...below(new URL("kubernetes", folder).pathname).map(name => `kubernetes/${name}`),
  ...["helm-values.yaml", "local/helm-values.yaml"],
].filter(name => name.endsWith(".yaml"));

/** The arguments of all sidecars that are clients of the API server, in manifests and in values of democratic-csi's chart. */
function argumentsIn(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value.flatMap(argumentsIn);
  if (!isMapping(value)) return [];
  const { name, args } = value;
  if (/^(?:provisioner|attacher|resizer|snapshotter)$/.test(String(name)) && args) return [args];
  return Object.entries(value).flatMap(([key, each]) =>
    /^external[A-Z]/.test(key) && isMapping(each) && each["extraArgs"] ? [each["extraArgs"]] : argumentsIn(each),
  );
}

// The sidecars send 5 requests a second by default (client-go 0.36, rest/config.go, DefaultQPS).
test("every sidecar may send 50 requests a second to the API server", () => {
  const texts = files.map(name => readFileSync(new URL(name, folder), "utf8"));
  const found = texts.flatMap(text => parseAllDocuments(text).flatMap(each => argumentsIn(each.toJS())));
  expect(found).toHaveLength(13);
  for (const args of found) expect(args).toEqual(expect.arrayContaining(["--kube-api-qps=50", "--kube-api-burst=100"]));
});
