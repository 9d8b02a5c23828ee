import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { adoptionsText, adoptionText, deletionText } from "../cmd/cluster/volumes/manifests.ts";
import { visible } from "../lib/core/visible.ts";
import { manifestText } from "../lib/takeover/manifests.ts";
import { movingSteps } from "../lib/takeover/volumes.ts";
import { goProgram, hasGoProgram } from "../scripts/cluster/tools.ts";
import { spawned } from "../scripts/spawned.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "csimux-printed-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly spec?: { readonly csi?: { readonly volumeAttributes: object } };
}

/** Texts that would become another object for a parser that ends lines at these characters (YAML 1.1, as kubectl's), or shows nothing. */
const breaks = ["\x85", "\u2028", "\u2029", "\ufeff", "\r", "\n"];
const hidden = ["\x7f", "\x9b31m", "\u200b", "\u202a", "\u202e", "\u2066", "\u2069", "\ufeff", "\uffff", "\x1b[1m"];
const hostile: Readonly<Record<string, string>> = Object.fromEntries([
  ...breaks.map((each, at) => {
    const lines = ["x", "apiVersion:", "  v1", "kind:", "  ConfigMap", "metadata:", "  name:", "    pwned", "---", "x"];
    return [`break-${at}`, lines.join(each)] as const;
  }),
  ...hidden.map((each, at) => [`hidden-${at}`, `a${each}b`] as const),
  ["start", "\ufeff---"],
  ["plain", "a: b # c"],
]);

/** The objects in a text as Helm reads values: with the parser of kubectl (sigs.k8s.io/yaml), a document at a time. */
async function readByGo(text: string): Promise<readonly Manifest[]> {
  await mkdir(join(folder, "templates"), { recursive: true });
  await writeFile(join(folder, "Chart.yaml"), "apiVersion: v2\nname: c\nversion: 1.0.0\n");
  await writeFile(join(folder, "templates", "all.yaml"), "json: {{ toJson .Values | b64enc }}\n");
  const found: Manifest[] = [];
  for (const document of text.split(/^---\n/m).filter(each => each !== "")) {
    const values = join(folder, "manifest.yaml");
    await writeFile(values, document);
    const { code, stdout, stderr } = await spawned([goProgram("helm"), "template", "c", folder, "--values", values]);
    expect([code, stderr]).toEqual([0, ""]);
    found.push(JSON.parse(Buffer.from(parse(stdout).json, "base64").toString()) as Manifest);
  }
  return found;
}

const volume = {
  source: undefined,
  id: `v:a/${hostile["break-1"]}`,
  bytes: 1n,
  context: hostile,
  accessibleTopology: [{ zone: hostile["break-2"] ?? "" }],
};
const claim = {
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { namespace: "shop", name: "db", annotations: hostile, labels: {} },
  spec: { storageClassName: "fast" },
};
const request = { driver: "csimux.storage", volume, access: undefined, name: "pv-1", claim: "shop/db" };
const own = Object.values(hostile).join(" ");

const printed: readonly (readonly [string, string, readonly string[]])[] = [
  ["adopt", adoptionText(request, false, own), ["PersistentVolume pv-1", "PersistentVolumeClaim db"]],
  [
    "adopt --all",
    adoptionsText(hostile["break-3"] ?? "", [request], [own, ...Object.values(hostile)]),
    ["PersistentVolume pv-1", "PersistentVolumeClaim db"],
  ],
  ["orphans", deletionText(request, own), [expect.stringMatching(/^PersistentVolume delete-\w+$/)]],
  ["takeover", manifestText([claim]), ["PersistentVolumeClaim db"]],
];

test.each(printed)("what %s prints has no character that ends a line elsewhere or is not shown", (_, text) => {
  expect(text.split("\n").filter(line => line !== visible(line))).toEqual([]);
});

describe.skipIf(!hasGoProgram("helm"))("a Go program reads in what is printed the objects that were meant", () => {
  test.each(printed)("by %s", async (_, text, kinds) => {
    const found = await readByGo(text);
    expect(found.map(each => `${each.kind} ${each.metadata.name}`)).toEqual([...kinds]);
    const [first] = found;
    expect(first?.spec?.csi?.volumeAttributes ?? first?.metadata.annotations).toEqual(hostile);
  });
});

test("the steps in the file of a moved volume are comments only, whatever its claim is called", () => {
  const steps = movingSteps({ name: "pv", claim: `shop/${hostile["break-5"]}`, policy: "Delete", manifest: {} });
  expect(steps.map(visible).filter(each => each.includes("\n"))).toEqual([]);
});
