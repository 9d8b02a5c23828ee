import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { modules } from "../lib/drivers/index.ts";
import type { Input } from "../lib/lint/input.ts";
import { lint } from "../lib/lint/lint.ts";
import { below } from "../scripts/check/below.ts";

const outside = { env: () => undefined, file: () => undefined };
const page = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), "utf8");
const readme = page("README.md");
const guide = [
  readme,
  ...["connections", "topology", "move-storage"].map(name => page(`examples/guide/${name}.md`)),
].join("\n");

/** Every YAML snippet of README and the guide, without the indentation of a surrounding list. */
const snippets = [...guide.matchAll(/^( *)```yaml\n([\s\S]*?)^ *```$/gm)].map(([, indent = "", text = ""]) =>
  text.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
);

/** The snippet that contains these words. */
function snippet(words: string): string {
  const found = snippets.filter(text => text.includes(words));
  if (found.length !== 1) throw new Error(`${found.length} snippets hold ${JSON.stringify(words)}`);
  return found[0] ?? "";
}

/** Findings of `csimux validate --strict` for a deployment with all files of its connection folder. */
function said(
  main: string,
  connections: Readonly<Record<string, string>>,
  ...others: readonly string[]
): readonly string[] {
  const inputs: readonly Input[] = [
    { file: "proxy.yaml", text: main, role: "main" },
    ...Object.entries(connections).map(([file, text]): Input => ({ file, text, role: "connection" })),
    ...others.map((text, index): Input => ({ file: `${index}.yaml`, text, role: "given" })),
  ];
  return lint(inputs, { modules, resolver: outside, checkEnvironment: false }).problems.map(
    ({ file, line, severity, message }) => `${file}:${line} ${severity} ${message}`,
  );
}

const nfs = (host: string): string =>
  `driver: nfs-client\nnfs:\n  shareHost: ${host}\n  shareBasePath: /export\n  controllerBasePath: /storage\n`;

/** A complete main file from a part of one. */
const whole = (part: string): string =>
  `driver: proxy\n${part.replace("proxy:\n", "proxy:\n  configFolder: /connections\n")}`;

const used = {
  main: "local folders: a volume is reachable",
  connection: "shareBasePath: /srv/fast",
  storageClass: "kind: StorageClass",
  zone: "a node called rack1-03",
  place: "in the connection file",
  group: "policy: most-free",
  addresses: "nas.old.example: nas.example",
  racks: "addressesByTopology:",
  /** The parameters of a class. */
  names: "nameTemplate:",
  /** A part of a pod, which csimux does not read. */
  variable: "valueFrom:",
  /** An object of KubeVirt. */
  profile: "kind: StorageProfile",
} as const;

test("each driver that the README says was run in the lab is in a test of the lab", () => {
  const lab = new URL("lab/", import.meta.url).pathname;
  const sources = below(lab, "files only")
    .map(name => readFileSync(join(lab, name), "utf8"))
    .join("\n");
  const rows = [...readme.matchAll(/^\| \[(`[^|\]]*)\]\([^|]*\|.*in the lab[^|]*\|$/gm)];
  const claimed = rows.flatMap(([, cell = ""]) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name));
  expect(claimed).toContain("zfs-local-zvol");
  // Its volumes are those attributes of other drivers' volumes that a person writes.
  const written = claimed.filter(name => name !== "node-manual");
  expect(written.filter(name => !sources.includes(name))).toEqual([]);
});

describe("what README and guide show passes csimux validate --strict", () => {
  test("every snippet is checked", () => {
    expect(snippets).toHaveLength(Object.keys(used).length);
    for (const words of Object.values(used)) expect(snippet(words)).not.toBe("");
  });

  test("a class that names volumes after their claims", () => {
    const head =
      "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata:\n  name: named\nprovisioner: csimux.storage\n";
    expect(said(snippet(used.main), { "tank.yaml": nfs("nas.example") }, head + snippet(used.names))).toEqual([]);
  });

  test("the two files and the class", () => {
    expect(said(snippet(used.main), { "fast.yaml": snippet(used.connection) }, snippet(used.storageClass))).toEqual([]);
  });

  test("the zone of a node and the topology of a connection", () => {
    expect(said(whole(snippet(used.zone)), { "nas.yaml": nfs("nas") + snippet(used.place) })).toEqual([]);
  });

  test("the addresses of a storage by rack", () => {
    expect(said(whole(snippet(used.racks)), { "nas.yaml": nfs("nas") })).toEqual([]);
  });

  test("the new address of a storage", () => {
    const main = `driver: proxy\nproxy:\n  configFolder: /connections\n${snippet(used.addresses)}`;
    expect(said(main, { "nas.yaml": nfs("nas") })).toEqual([]);
  });

  test("the group", () => {
    const files = Object.fromEntries(["nas1", "nas2", "nas3"].map(name => [`${name}.yaml`, nfs(name)]));
    expect(said(whole(snippet(used.group)), files)).toEqual([]);
  });

  test("a class that names a connection that does not exist would be noticed", () => {
    const wrong = snippet(used.storageClass).replace("connection: fast", "connection: slow");
    expect(said(snippet(used.main), { "fast.yaml": snippet(used.connection) }, wrong)).toHaveLength(1);
  });
});
