import { describe, expect, test } from "bun:test";
import type { GenericSchema } from "valibot";
import { parse } from "yaml";
import { modules } from "../../lib/drivers/index.ts";
import { dotted, type Path } from "../../lib/schema/finding.ts";
import { aboutOf, isOptional, shapeOf } from "../../lib/schema/shape.ts";
import { byDriver, changed, gist, read } from "./example-files.ts";

/** A key of a file, and what the schema says about it. */
interface Key {
  readonly path: Path;
  readonly schema: GenericSchema;
}

/** Every key of the schema. Items of lists stand for the first item; free keys are left out. */
function keysOf(schema: GenericSchema, path: Path = []): readonly Key[] {
  const shape = shapeOf(schema);
  if (shape.kind === "mapping") {
    return [...shape.keys].flatMap(([name, inner]) => {
      const here = [...path, name];
      return [{ path: here, schema: inner }, ...keysOf(inner, here)];
    });
  }
  return shape.kind === "list" ? keysOf(shape.item, [...path, 0]) : [];
}

const valueAt = (value: unknown, path: Path): unknown =>
  path.reduce<unknown>((here, step) => (here as Record<string | number, unknown> | undefined)?.[step], value);

const drivers = modules.flatMap(module => module.names.map(name => ({ name, schema: module.schema })));

/** Keys of the driver's own sections that its example shows. */
const shownKeys = drivers.flatMap(({ name, schema }) => {
  const text = byDriver.get(name) ?? "";
  const value: unknown = parse(text);
  return keysOf(schema)
    .filter(({ path }) => valueAt(value, path) !== undefined)
    .map(key => ({ name, text, ...key, where: dotted(key.path) }));
});

describe("every driver", () => {
  test("has 8 TrueNAS drivers under two names each, 7 of plain ZFS, and all others", () => {
    const names = drivers.map(({ name }) => name);
    expect(names).toHaveLength(new Set(names).size);
    expect(names.filter(name => name.startsWith("freenas-"))).toHaveLength(8);
    expect(names.filter(name => name.startsWith("truenas-"))).toHaveLength(8);
    expect(names.filter(name => name.startsWith("zfs-"))).toHaveLength(7);
    const others = ["nfs-client", "smb-client", "lustre-client", "local-hostpath", "synology-iscsi", "objectivefs"];
    expect(names).toEqual(expect.arrayContaining([...others, "node-manual"]));
  });

  test.each(drivers)("$name: its example is good", ({ name }) => {
    const { config, diagnostics } = read(byDriver.get(name) ?? "");
    expect(diagnostics).toEqual([]);
    expect(config).toMatchObject({ driver: name });
  });

  test.each(drivers)("$name: every key is described in words", ({ schema }) => {
    const mute = keysOf(schema).filter(key => !aboutOf(key.schema).description);
    expect(mute.map(({ path }) => dotted(path))).toEqual([]);
  });

  test.each(drivers)("$name: an unknown key anywhere is an error with its place", ({ name, schema }) => {
    const text = byDriver.get(name) ?? "";
    const value: unknown = parse(text);
    const mappings = keysOf(schema).filter(key => {
      const shown = valueAt(value, key.path);
      return shapeOf(key.schema).kind === "mapping" && shown !== undefined && shown !== null;
    });
    for (const { path } of [{ path: [] }, ...mappings]) {
      const odd = [...path, "colour"];
      expect(gist(changed(text, odd, "red"))).toContain(`unknown-key ${dotted(odd)}`);
    }
  });
});

/** The required keys of each driver that democratic-csi has, as its documentation lists them. */
const parents = ["zfs", "zfs.datasetParentName", "zfs.detachedSnapshotsDatasetParentName"];
const http = ["httpConnection", "httpConnection.host"];
const account = ["httpConnection.username", "httpConnection.password"];
const ssh = ["sshConnection.host", "sshConnection.username"];
const directory = (section: string) => [section, `${section}.shareBasePath`, `${section}.controllerBasePath`];
const shared = (section: string) => [section, `${section}.shareHost`];
const targetGroups = ["iscsi", "iscsi.targetGroups", "iscsi.targetGroups[0].targetGroupPortalGroup"];

const documented: Readonly<Record<string, readonly string[]>> = {
  "local-hostpath": directory("local-hostpath"),
  "nfs-client": [...directory("nfs"), "nfs.shareHost"],
  "smb-client": [...directory("smb"), "smb.shareHost"],
  "lustre-client": [...directory("lustre"), "lustre.shareHost"],
  "zfs-generic-nfs": [...ssh, ...parents, ...shared("nfs"), "nfs.shareStrategy"],
  "zfs-generic-smb": [...ssh, ...parents, ...shared("smb"), "smb.shareStrategy"],
  "zfs-generic-iscsi": [
    ...[...ssh, ...parents, "iscsi", "iscsi.shareStrategy"],
    ...["iscsi.shareStrategyTargetCli", "iscsi.shareStrategyTargetCli.basename"],
  ],
  "zfs-generic-nvmeof": [
    ...[...ssh, ...parents, "nvmeof", "nvmeof.shareStrategy"],
    ...["nvmeof.shareStrategyNvmetCli.basename", "nvmeof.shareStrategyNvmetCli.ports"],
  ],
  "zfs-local-dataset": parents,
  "zfs-local-zvol": parents,
  "zfs-local-ephemeral-inline": ["zfs", "zfs.datasetParentName"],
  "freenas-nfs": [...http, "sshConnection", ...ssh, ...parents, ...shared("nfs")],
  "freenas-smb": [...http, "sshConnection", ...ssh, ...parents, ...shared("smb")],
  "freenas-iscsi": [...http, "sshConnection", ...ssh, ...parents, ...targetGroups],
  "freenas-nvmeof": [...http, "sshConnection", ...ssh, ...parents, "nvmeof"],
  "freenas-api-nfs": [...http, ...parents, ...shared("nfs")],
  "freenas-api-smb": [...http, ...parents, ...shared("smb")],
  "freenas-api-iscsi": [...http, ...parents, ...targetGroups],
  "freenas-api-nvmeof": [...http, ...parents, "nvmeof"],
  "synology-iscsi": [
    ...[...http, ...account, "iscsi", "iscsi.baseiqn"],
    ...["iscsi.lunTemplate.dev_attribs[0].dev_attrib", "iscsi.lunTemplate.dev_attribs[0].enable"],
  ],
  "synology-nfs": [...http, ...account, "nfs", "nfs.shareHost", "nfs.allowedHosts"],
  "synology-smb": [...http, ...account, "smb", "smb.shareHost"],
  objectivefs: ["objectivefs", "objectivefs.pool", "objectivefs.env"],
  "node-manual": [],
};

describe("a required key", () => {
  const required = shownKeys.filter(({ schema }) => !isOptional(schema));

  const compatible = Object.entries(documented).flatMap(([name, keys]) => [
    { name, keys },
    ...(name.startsWith("freenas-") ? [{ name: name.replace("freenas-", "truenas-"), keys }] : []),
  ]);

  test.each(compatible)("$name: these keys are required and no others", ({ name, keys }) => {
    expect(drivers.map(each => each.name)).toContain(name);
    const found = required.filter(key => key.name === name).map(({ where }) => where);
    expect(found.sort()).toEqual([...keys].sort());
  });

  test.each(required)("$name: without $where the file is refused", ({ text, path, where }) => {
    const removed = changed(text, path, undefined);
    const { config, diagnostics } = read(removed);
    expect(config).toBeUndefined();
    const errors = diagnostics.filter(({ severity }) => severity === "error");
    expect(errors.map(each => each.path)).toEqual([where]);
    expect(errors[0]?.message).toContain("is missing");
    expect(errors[0]?.line).toBeGreaterThan(0);
  });

  test.each(required)("$name: an empty $where counts as absent", ({ text, path, where }) => {
    const { config, diagnostics } = read(changed(text, path, null));
    expect(config).toBeUndefined();
    expect(diagnostics.map(each => each.path)).toContain(where);
  });
});

describe("a value of the wrong type", () => {
  /** Something that no key of this kind accepts. */
  const wrong: Readonly<Record<string, unknown>> = {
    mapping: ["red"],
    "free-mapping": ["red"],
    list: { colour: "red" },
    flag: "maybe",
    number: "many",
    words: ["red"],
    text: { colour: "red" },
    either: { colour: "red" },
  };

  test.each(shownKeys.filter(({ schema }) => shapeOf(schema).kind !== "any"))(
    "$name: $where is reported where it stands",
    ({ text, path, schema, where }) => {
      const { config, diagnostics } = read(changed(text, path, wrong[shapeOf(schema).kind]));
      expect(config).toBeUndefined();
      expect(diagnostics.filter(({ severity }) => severity === "error").map(each => each.path)).toEqual([where]);
    },
  );
});

describe("a secret", () => {
  const secrets = shownKeys.filter(({ schema }) => aboutOf(schema).secret);

  test("is known as such in every file of democratic-csi's drivers with credentials", () => {
    const known = secrets.filter(({ name }) => name.replace(/^truenas-/, "freenas-") in documented);
    expect(new Set(known.map(({ where }) => where))).toEqual(
      new Set([
        "sshConnection.privateKey",
        "httpConnection.apiKey",
        "httpConnection.password",
        "iscsi.shareStrategyTargetCli.tpg.auth.password",
      ]),
    );
  });

  test.each(secrets)("$name: $where is printed by no finding", ({ text, path }) => {
    for (const value of [{ word: "hunter2" }, ["hunter2"], "-----BEGIN hunter2", "hunter2 ${env:HUNTER} $HUNTER"]) {
      expect(JSON.stringify(read(changed(text, path, value)).diagnostics)).not.toContain("hunter2");
    }
  });

  test.each(secrets)("$name: $where may be given as a file", ({ text, path, where }) => {
    const file = [...path.slice(0, -1), `${String(path.at(-1))}File`];
    const moved = changed(changed(text, path, undefined), file, "/run/secrets/nas");
    expect(gist(moved)).toContain(`unreadable-file ${where}File`);
  });
});
