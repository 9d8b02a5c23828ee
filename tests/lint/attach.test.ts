import { describe, expect, test } from "bun:test";
import { check } from "./checking.ts";
import { hostpath, iscsi, main, nfs, values, volume } from "./examples/files.ts";

const name = "csimux.storage";
const disk = iscsi("[nas.example.org]");
const local = hostpath.replaceAll("local-hostpath", "zfs-local-zvol");
const driver = (spec: string, of = name): string =>
  `apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: { name: ${of} }\nspec: { ${spec} }\n`;
const off = "attachRequired: false";
const controller = (more = "", args = `--name=${name}, --mode=controller`): string =>
  `apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: c }\nspec:\n  template:\n    spec:\n      containers:\n        - name: csimux\n          image: r.example/csimux\n          args: [serve, ${args}]\n${more}`;
const attacher = "        - { name: csi-attacher, image: 'mirror.example/csi-attacher:v4' }\n";
const all = (...documents: readonly string[]): string => documents.join("---\n");

const found = (files: Readonly<Record<string, string>>) =>
  check(files)
    .filter(({ rule }) => rule.startsWith("attach"))
    .map(({ file, line, severity, rule }) => `${file}:${line} ${severity} ${rule}`);

const required = "driver.yaml:4 error attach-required";

describe("a CSIDriver that does not attach", () => {
  test("is an error if a connection serves disks, and not if all serve shares", () => {
    expect(found({ "c1.yaml": disk, "driver.yaml": driver(off) })).toEqual([required]);
    expect(found({ "c1.yaml": nfs(), "c2.yaml": disk, "driver.yaml": driver(off) })).toEqual([required]);
    expect(found({ "c1.yaml": nfs(), "driver.yaml": driver(off) })).toEqual([]);
  });

  test.each(["", "attachRequired: true"])("is another one than { %s }", spec => {
    expect(found({ "c1.yaml": disk, "driver.yaml": driver(spec) })).toEqual([]);
  });

  test("is not an error if volumes never leave their node", () => {
    expect(found({ "c1.yaml": local, "driver.yaml": driver(off) })).toEqual([]);
  });

  test("is found in a List, among manifests of others", () => {
    const list = `apiVersion: v1\nkind: List\nitems:\n  - { apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: { name: ${name} }, spec: { ${off} } }\n`;
    expect(found({ "c1.yaml": disk, "driver.yaml": list })).toEqual(["driver.yaml:4 error attach-required"]);
  });

  test("is ignored if it belongs to another driver", () => {
    const other = driver(off, "nfs.csi.k8s.io");
    expect(found({ "c1.yaml": disk, "driver.yaml": all(other, controller(attacher)) })).toEqual([]);
    expect(found({ "c1.yaml": disk, "driver.yaml": all(other, driver("")) })).toEqual([]);
    const variable = controller(attacher, "--name=$(DRIVER_NAME)").replace(
      "          args",
      `          env: [{ name: DRIVER_NAME, value: ${name} }]\n          args`,
    );
    expect(found({ "c1.yaml": disk, "driver.yaml": all(driver(off), other, variable) })).toEqual([required]);
  });

  test("of an alias is an error if its connection serves disks", () => {
    const alias = (connection: string) =>
      all(
        driver(off, "old.example"),
        driver(""),
        controller(attacher, `--name=${name}, --alias=old.example=${connection}`),
      );
    const files = { "c1.yaml": nfs(), "c2.yaml": disk };
    expect(found({ ...files, "driver.yaml": alias("c1") })).toEqual([]);
    expect(found({ ...files, "driver.yaml": alias("c2") })).toEqual([required]);
  });

  test("is an error in a patch of kustomize with any name", () => {
    const files = { "c1.yaml": disk, "controller.yaml": all(driver(""), controller(attacher)) };
    expect(found({ ...files, "driver.yaml": driver(off, "any") })).toEqual([required]);
  });

  test("is an error if a manually written PersistentVolume is a disk", () => {
    const files = (protocol: string) => ({
      "c1.yaml": "driver: node-manual\n",
      "driver.yaml": driver(off),
      "pv.yaml": volume("x", "node-manual", `      node_attach_driver: ${protocol}\n`),
    });
    expect(found(files("iscsi"))).toEqual([required]);
    expect(found(files("nfs"))).toEqual([]);
  });
});

describe("a CSIDriver that attaches", () => {
  const missing = "driver.yaml:4 warning attacher-missing";

  test("is a warning with a controller without csi-attacher", () => {
    expect(found({ "c1.yaml": disk, "driver.yaml": all(driver("attachRequired: true"), controller()) })).toEqual([
      missing,
    ]);
    expect(found({ "c1.yaml": nfs(), "driver.yaml": all(driver("podInfoOnMount: true"), controller()) })).toEqual([
      missing,
    ]);
    expect(
      found({ "c1.yaml": disk, "driver.yaml": all(driver("attachRequired: true"), controller(attacher)) }),
    ).toEqual([]);
  });

  test("is not one if the files contain only nodes, or a patch disables attaching", () => {
    const nodes = controller("", `--name=${name}, --mode=node`);
    expect(found({ "c1.yaml": disk, "driver.yaml": all(driver(""), nodes) })).toEqual([]);
    expect(
      found({ "c1.yaml": nfs(), "driver.yaml": all(driver(""), controller()), "patch.yaml": driver(off, "any") }),
    ).toEqual([]);
  });
});

describe("Helm values", () => {
  const attaching = (text: string): string => values("").replace("attachRequired: false", text);

  test("without attaching are an error if a connection serves disks", () => {
    expect(found({ "c1.yaml": disk, "values.yaml": values("") })).toEqual(["values.yaml:3 error attach-required"]);
    expect(found({ "proxy.yaml": main(), "c1.yaml": disk, "values.yaml": values("") })).toHaveLength(1);
    expect(found({ "proxy.yaml": main(), "c1.yaml": nfs(), "values.yaml": values("") })).toEqual([]);
  });

  test("with attaching are right, also for shares, and a warning without external-attacher", () => {
    for (const connection of [disk, nfs()])
      expect(
        found({ "proxy.yaml": main(), "c1.yaml": connection, "values.yaml": attaching("attachRequired: true") }),
      ).toEqual([]);
    const without = values("  externalAttacher: { enabled: false }\n").replace("  attachRequired: false\n", "");
    expect(found({ "c1.yaml": nfs(), "values.yaml": without })).toEqual(["values.yaml:5 warning attacher-missing"]);
  });
});

test("manifests of other drivers alone are ignored", () => {
  expect(check({ "d.yaml": controller("", "--x").replace("serve, ", "") })).toEqual([]);
  expect(check({ "d.yaml": driver(off, "nfs.csi.k8s.io") })).toEqual([]);
});
