import { describe, expect, test } from "bun:test";
import { check, seen } from "./checking.ts";

const head = "driverName: csimux.acme.org\n";
const classes = (connection: string): string =>
  `storageClasses:\n  - name: nas\n    parameters:\n      connection: ${connection}\n`;
const nas = (folder = "/k8s", more = ""): string =>
  `connections:\n  nas: |\n    driver: nfs-client\n    nfs:\n      shareHost: nas.lan\n      shareBasePath: ${folder}\n      controllerBasePath: /nas\n${more}`;
const nasFile = "driver: nfs-client\nnfs:\n  shareHost: nas.lan\n  shareBasePath: k8s\n  controllerBasePath: /nas\n";
const disk =
  "  disk: |\n    driver: zfs-generic-iscsi\n    sshConnection: { host: san.lan, username: root, password: pa55word, hostKey: '*' }\n" +
  "    zfs: { datasetParentName: tank/v, detachedSnapshotsDatasetParentName: tank/s, datasetEnableQuotas: true }\n" +
  "    iscsi: { targetPortal: san.lan, basename: 'iqn.2003-01.org.example', shareStrategy: targetCli, shareStrategyTargetCli: { tpg: { attributes: {} } } }\n";

const gist = (files: Readonly<Record<string, string>>) =>
  check(files).map(({ file, line, column, rule, message }) => `${file}:${line}:${column} ${rule} ${message}`);
const rulesOf = (files: Readonly<Record<string, string>>) => check(files).map(({ rule }) => rule);

describe("values of csimux's chart", () => {
  test("are right with connections, groups and classes in them, and in several files", () => {
    const groups = "groups:\n  all:\n    members: [nas]\n";
    expect(gist({ "values.yaml": head + nas() + classes("nas") })).toEqual([]);
    expect(gist({ "values.yaml": head + nas() + groups + classes("all") })).toEqual([]);
    expect(gist({ "common.yaml": head + classes("nas"), "secrets.yaml": nas() })).toEqual([]);
    expect(gist({ "common.yaml": head + classes("nas"), "nas.yaml": nasFile.replace("k8s", "/k8s") })).toEqual([]);
  });

  test("have the position of each problem, also below the key of an umbrella chart", () => {
    const wrong = "invalid-value nas: must be an absolute path";
    expect(gist({ "v.yaml": head + nas("k8s") })).toEqual([`v.yaml:7:22 ${wrong}`]);
    const below = `other: {}\ncsimux:\n${(head + nas("k8s")).replace(/^(?=.)/gm, "  ")}`;
    expect(gist({ "v.yaml": below })).toEqual([`v.yaml:9:24 ${wrong}`]);
    const main = "main: |\n  driver: proxy\n  proxy:\n    configFolder: /connections\n    listing: never\n";
    expect(gist({ "v.yaml": head + nas() + main })).toEqual([
      expect.stringMatching(/^v\.yaml:13:14 invalid-value main: /),
    ]);
  });

  test("name only connections and groups that exist", () => {
    expect(gist({ "v.yaml": head + nas() + classes("nass") })).toEqual([
      'v.yaml:12:19 class-connection-missing there is no connection or group "nass"',
    ]);
    const groups = "groups:\n  all:\n    members: [nas, nax]\n";
    expect(gist({ "v.yaml": head + nas() + groups })).toEqual([expect.stringMatching(/^v\.yaml:11:20 \S+ .*"nax"/)]);
  });

  test("attach disks", () => {
    const values = head + nas("/k8s", disk);
    expect(rulesOf({ "v.yaml": values })).not.toContain("attach-required");
    const off = check({ "v.yaml": `${values}attachRequired: false\n` }).filter(
      ({ rule }) => rule === "attach-required",
    );
    expect(off.map(({ line }) => line)).toEqual([values.split("\n").length]);
    expect(rulesOf({ "v.yaml": `${head}${nas()}attachRequired: false\n` })).toEqual([]);
  });

  test("serve disks of nodes in mode node-local only, where every node is a topology segment", () => {
    const folder =
      "connections:\n  disk: |\n    driver: local-hostpath\n    local-hostpath: { shareBasePath: /v, controllerBasePath: /v }\n";
    expect(gist({ "v.yaml": `mode: node-local\n${head}${folder}` })).toEqual([]);
    expect(rulesOf({ "v.yaml": `mode: central\n${head}${folder}groups: { all: { members: [disk] } }\n` })).toEqual([
      "local-needs-node-topology",
    ]);
  });

  test("are recognized by their classes, and name no placeholders", () => {
    expect(gist({ "v.yaml": classes("nas"), "nas.yaml": nasFile.replace("k8s", "/k8s") })).toEqual([]);
    expect(rulesOf({ "v.yaml": classes("nass"), "nas.yaml": nasFile.replace("k8s", "/k8s") })).toEqual([
      "class-connection-missing",
    ]);
    const image = "image:\n  repository: registry.example.org/csimux\n";
    const found = check({ "v.yaml": `driverName: org.example.csimux\n${image}${classes("nas")}`, "nas.yaml": nasFile });
    expect(found.map(({ file, line, rule }) => `${file}:${line} ${rule}`)).toEqual([
      "v.yaml:1 placeholder-driver",
      "v.yaml:3 placeholder-image",
      "nas.yaml:4 invalid-value",
    ]);
  });

  test("keep their secrets", () => {
    const shown = seen(check({ "v.yaml": head + nas("k8s", disk.replace("host:", "hots:")) }));
    expect(shown).toContain("hots");
    expect(shown).not.toContain("pa55word");
  });
});
