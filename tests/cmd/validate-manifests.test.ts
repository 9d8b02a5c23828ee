import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Command } from "commander";
import type { Host } from "../../cmd/host.ts";
import { addValidate } from "../../cmd/validate/command.ts";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "csimux-manifests-"));
  folders.push(folder);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

/** Runs `csimux validate -o json` as commander would. */
async function validate(...args: readonly string[]) {
  const out: string[] = [];
  const err: string[] = [];
  const host: Host = {
    out: text => void out.push(text),
    err: text => void err.push(text),
    stdin: async () => "",
    env: {},
    hostname: "here",
    colour: false,
    pause: async () => {},
  };
  const program = new Command().exitOverride();
  addValidate(program, host);
  const before = process.exitCode;
  process.exitCode = 0;
  await program.parseAsync(["node", "csimux", "validate", "-o", "json", ...args]);
  const code = process.exitCode;
  process.exitCode = before ?? 0;
  const { diagnostics, files, notLookedAt } = JSON.parse(out.join(""));
  const found = diagnostics.map(({ rule, path }: { rule: string; path: string }) => `${rule} ${path}`);
  return { code, found, files, notLookedAt, err: err.join("") };
}

const shipped = (path: string): string =>
  readFileSync(new URL(`../../examples/kubernetes/${path}`, import.meta.url), "utf8");
const nfs = (folder: string): string =>
  `driver: nfs-client\nnfs:\n  shareHost: a\n  shareBasePath: ${folder}\n  controllerBasePath: /b\n`;
const indented = (text: string): string => text.replace(/^(?=.)/gm, "    ");
const object = (kind: "Secret" | "ConfigMap", name: string, file: string, text: string): string =>
  `apiVersion: v1\nkind: ${kind}\nmetadata: { name: ${name} }\n${kind === "Secret" ? "stringData" : "data"}:\n  ${file}: |\n${indented(text)}`;

/** The output of `kubectl kustomize central` as far as csimux reads it: the project's manifests. */
const rendered = {
  "driver.yaml": shipped("base/csidriver.yaml"),
  "node.yaml": shipped("base/node.yaml"),
  "controller.yaml": `${shipped("drivers/central/controller.yaml")}`,
  "attacher.yaml": shipped("attach/attacher-patch.yaml"),
  "config.yaml": object("ConfigMap", "csimux-config", "proxy.yaml", shipped("central/proxy.yaml")),
  "classes.yaml":
    "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: { name: nas }\nprovisioner: csimux.storage\nparameters: { connection: nas }\n",
};
const connections = object("Secret", "csimux-connections", "nas.yaml", shipped("central/connections/nas.yaml"));

describe("the manifests of the project", () => {
  test("are right together with their Secret, and JSON names the files", async () => {
    const folder = folderOf({ ...rendered, "secret.yaml": connections });
    const { code, found, files, notLookedAt, err } = await validate(folder);
    expect([found, notLookedAt, err, code]).toEqual([[], [], "", 0]);
    const names = ["attacher", "classes", "config", "controller", "node", "secret"];
    expect(files.filter((each: string) => !each.endsWith("driver.yaml"))).toEqual(
      names.filter(each => each !== "attacher").map(each => join(folder, `${each}.yaml`)),
    );
  });

  test("without their Secret are not completely checked: exit code 2 and the name of the Secret", async () => {
    const { code, found, notLookedAt, err } = await validate(folderOf(rendered));
    const words =
      'Secret "csimux-connections" with the connection files was not checked: add its manifest, or name its files';
    expect([code, found, notLookedAt, err]).toEqual([2, [], [words], `csimux: ${words}\n`]);
  });

  test("without their ConfigMap are not completely checked either", async () => {
    const { "config.yaml": _, ...others } = rendered;
    const { code, notLookedAt } = await validate(folderOf(others));
    expect([code, notLookedAt]).toEqual([2, [expect.stringContaining('ConfigMap "csimux-config" with the main file')]]);
  });

  test.each([
    [
      "a pod that mounts another Secret",
      "controller.yaml",
      "secretName: csimux-connections",
      "secretName: csimux-conections",
      "workload-secret spec.template.spec.volumes[1].secret.secretName",
    ],
    [
      "a CSIDriver without capacity",
      "driver.yaml",
      "storageCapacity: true",
      "storageCapacity: false",
      "capacity-tracking spec.storageCapacity",
    ],
    [
      "a provisioner without capacity",
      "controller.yaml",
      "- --enable-capacity=true",
      "- --enable-capacity=false",
      "capacity-tracking spec.storageCapacity",
    ],
  ] as const)("with %s are wrong", async (_what, file, from, to, finding) => {
    expect(rendered[file]).toContain(from);
    const changed = { ...rendered, [file]: rendered[file].replace(from, to), "secret.yaml": connections };
    expect(await validate("--strict", folderOf(changed))).toMatchObject({ code: 1, found: [finding] });
  });

  test("a class of another driver with only a CSIDriver is also wrong", async () => {
    const classes = rendered["classes.yaml"].replace("csimux.storage", "org.democratic-csi.nfs");
    const folder = folderOf({ "driver.yaml": rendered["driver.yaml"], "classes.yaml": classes });
    expect((await validate(folder)).found).toEqual(["class-driver provisioner"]);
  });
});

describe("a folder with a kustomization.yaml", () => {
  const kustomization = (files: string): string =>
    `kind: Kustomization\napiVersion: kustomize.config.k8s.io/v1beta1\nsecretGenerator:\n  - name: csimux-connections\n    files:\n${files}`;
  const files = (named: string) => ({
    "proxy.yaml": "driver: proxy\nproxy:\n  configFolder: /connections\n",
    "connections/a.yaml": nfs("/a"),
    "connections/b.yaml": nfs("/c"),
    "kustomization.yaml": kustomization(named),
  });

  test("is right where it names every connection file", async () => {
    const all = files("      - connections/a.yaml\n      - b.yaml=connections/b.yaml\n");
    expect(await validate("--strict", folderOf(all))).toMatchObject({ code: 0, found: [] });
  });

  test("is wrong where it leaves one out", async () => {
    const folder = folderOf(files("      - connections/a.yaml\n"));
    expect(await validate(folder)).toMatchObject({
      code: 1,
      found: ["kustomize-file-missing secretGenerator[0].files"],
    });
  });
});

describe("a file that sops has encrypted", () => {
  const sealed = (body: string): string => `${body}sops: { mac: "ENC[AES256_GCM,data:x]", version: 3.9.0 }\n`;
  const file = sealed('driver: "ENC[AES256_GCM,data:x,type:str]"\nnfs: { shareHost: "ENC[x]" }\n');

  test("is not checked, which is exit code 2, and a class can name it", async () => {
    const folder = folderOf({ "nas.yaml": file, "other.yaml": nfs("/a"), "classes.yaml": rendered["classes.yaml"] });
    const { code, found, notLookedAt } = await validate(folder);
    const words = `${folder}/nas.yaml was not checked: it is encrypted by sops; "csimux validate -" reads the output of sops -d`;
    expect([code, found, notLookedAt]).toEqual([2, [], [words]]);
  });
});

test("a share that csimux mounts itself is not a missing folder to --online, and nothing is mounted", async () => {
  const folder = folderOf({ "proxy.yaml": shipped("central/proxy.yaml").replace("/connections", "c") });
  mkdirSync(join(folder, "c"));
  const share =
    "driver: nfs-client\nnfs: { shareHost: 127.0.0.1, shareBasePath: /x, controllerBasePath: /no/such/folder }\n";
  writeFileSync(join(folder, "c/nas.yaml"), share);
  const { code, found, notLookedAt } = await validate("--online", "--config", join(folder, "proxy.yaml"));
  const words =
    'connection "nas" was not checked: its share is not mounted on this machine; csimux serve mounts it itself';
  expect([code, found, notLookedAt]).toEqual([2, [], [words]]);
});

test("an invalid key hides no rule about the keys next to it", async () => {
  const text = `driver: proxy
proxy:
  configFolder: /connections
  cacheTimeoutMinutes: soon
  nodeTopology:
    type: zone
    prefix: "not a prefix"
    fromRegexp:
      - { topologyKey: zone, source: nodeNam }
      - { topologyKey: rack, source: env }
      - { topologyKey: row, source: nodeName, regex: "([" }
  groups:
    nas: { members: [a, a], policy: best }
`;
  const folder = folderOf({ "proxy.yaml": text });
  const { found } = await validate(join(folder, "proxy.yaml"));
  expect(found.sort()).toEqual([
    "invalid-value proxy.groups.nas.members[1]",
    "invalid-value proxy.groups.nas.policy",
    "invalid-value proxy.nodeTopology.fromRegexp[0].source",
    "invalid-value proxy.nodeTopology.fromRegexp[1].envName",
    "invalid-value proxy.nodeTopology.prefix",
    "topology-pattern proxy.nodeTopology.fromRegexp[2].regex",
    "wrong-type proxy.cacheTimeoutMinutes",
  ]);
});
