import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { parseAllDocuments } from "yaml";
import { modules } from "../lib/drivers/index.ts";
import type { Input } from "../lib/lint/input.ts";
import { lint } from "../lib/lint/lint.ts";
import { editorSchemas } from "../scripts/generate/editor-schemas.ts";
import { byDriver, exampleFiles, folder, read } from "./drivers/example-files.ts";

const outside = { env: (name: string) => (name === "QUICKSTART" ? "/srv/q" : undefined), file: () => undefined };

const yaml = (below: string): readonly string[] =>
  readdirSync(new URL(below, folder))
    .filter(name => name.endsWith(".yaml"))
    .map(name => `${below}${name}`);

/** A set of classes with the main file and the connection that it names. */
const setOf = (name: string, connection: string): readonly string[] => [
  "proxy.yaml",
  "connections-secret.yaml",
  `classes/${name}.yaml`,
  `connections/${connection}.yaml`,
];

/** Examples contain placeholders for secrets and the registry. */
const intended = ["placeholder-value", "placeholder-image"];

/** Findings of `csimux validate` in these files, without the intended ones. */
function problems(files: readonly string[]): readonly string[] {
  const inputs = files.map((file): Input => {
    const role = file.includes("connections/") ? "connection" : "given";
    return { file, text: readFileSync(new URL(file, folder), "utf8"), role };
  });
  return lint(inputs, { modules, resolver: outside, checkEnvironment: true })
    .problems.filter(({ rule }) => !intended.includes(rule))
    .map(({ file, line, rule, message }) => `${file}:${line} ${rule} ${message}`);
}

describe("examples", () => {
  test("show every driver", () => {
    expect([...byDriver].filter(([, text]) => text === "")).toEqual([]);
  });

  test.each(exampleFiles.map(({ file, text }) => ({ file, text })))("$file is a valid connection file", ({ text }) => {
    expect(read(text).diagnostics.filter(({ rule }) => !intended.includes(rule))).toEqual([]);
  });

  test.each(exampleFiles.filter(({ file }) => !file.startsWith("quickstart/")))(
    "$file names its schema for editors in the first line",
    ({ file, driver, text }) => {
      const path = /^# yaml-language-server: \$schema=(\S+)\n/.exec(text)?.[1] ?? "";
      expect(new URL(path, new URL(file, folder)).pathname).toBe(new URL(`schemas/${driver}.json`, folder).pathname);
      expect(editorSchemas().files.has(`examples/schemas/${driver}.json`)).toBe(true);
    },
  );

  test.each([
    ["the deployment with topology", [...yaml(""), ...yaml("connections/")]],
    ["the deployment of local drivers", yaml("local/")],
    ["the set of classes for files", setOf("files", "freenas-api-nfs")],
    ["the set of classes for disks", setOf("disks", "freenas-api-iscsi")],
    ["the quick start", [...yaml("quickstart/"), ...yaml("quickstart/connections/")]],
  ])("%s is valid as a whole", (_, files) => {
    expect(files.length).toBeGreaterThan(2);
    expect(problems(files)).toEqual([]);
  });

  const documents = (file: string) =>
    parseAllDocuments(readFileSync(new URL(file, folder), "utf8")).map(each => each.toJS());

  test("the sets of classes agree, and name what Velero, Kasten and KubeVirt look for", () => {
    const [files, snapshots, ...furtherFiles] = documents("classes/files.yaml");
    const [disks, profile, same, ...furtherDisks] = documents("classes/disks.yaml");
    expect([...furtherFiles, ...furtherDisks]).toEqual([]);
    expect([files, disks, profile, snapshots].map(({ kind }) => kind)).toEqual([
      "StorageClass",
      "StorageClass",
      "StorageProfile",
      "VolumeSnapshotClass",
    ]);
    expect(same).toEqual(snapshots);
    expect(documents("snapshotclasses.yaml")[0]).toEqual(snapshots);
    expect(snapshots.metadata).toMatchObject({
      labels: { "velero.io/csi-volumesnapshot-class": "true" },
      annotations: { "k10.kasten.io/is-snapshot-class": "true" },
    });
    for (const { metadata } of [files, disks])
      expect(metadata.annotations["k10.kasten.io/volume-snapshot-class"]).toBe(snapshots.metadata.name);
    expect(disks.metadata.annotations["storageclass.kubevirt.io/is-default-virt-class"]).toBe("true");
    expect([profile.metadata.name, profile.spec.snapshotClass]).toEqual([disks.metadata.name, snapshots.metadata.name]);
    expect(profile.spec.claimPropertySets[0]).toEqual({ accessModes: ["ReadWriteMany"], volumeMode: "Block" });
  });

  test("a broken deployment would be noticed", () => {
    const files = [...yaml(""), ...yaml("connections/")].filter(file => file !== "connections-secret.yaml");
    expect(problems(files).join("\n")).toContain("class-connection-missing");
  });
});
