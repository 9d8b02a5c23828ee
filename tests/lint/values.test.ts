import { describe, expect, test } from "bun:test";
import { stringify } from "yaml";
import { modules } from "../../lib/drivers/index.ts";
import { lint } from "../../lib/lint/lint.ts";
import { check } from "./checking.ts";
import { iscsi as iscsiFile, lio, login, nfs, storageClass } from "./examples/files.ts";

const gist = (files: Readonly<Record<string, string>>) =>
  check(files).map(({ file, line, rule, message }) => `${file}:${line} ${rule} ${message}`);
const rulesOf = (files: Readonly<Record<string, string>>) => check(files).map(({ rule }) => rule);
const unseenOf = (files: Readonly<Record<string, string>>) =>
  lint(
    Object.entries(files).map(([file, text]) => ({ file, text, role: "given" as const })),
    { modules, resolver: { env: () => undefined, file: () => undefined }, checkEnvironment: false },
  ).unseen;

const config = {
  driver: "freenas-api-nfs",
  httpConnection: { protocol: "https", host: "nas.lan", port: 443, username: "csi", apiKey: "1-abc" },
  zfs: {
    datasetParentName: "tank/k8s/vols",
    detachedSnapshotsDatasetParentName: "tank/k8s/snaps",
    datasetEnableQuotas: true,
  },
  nfs: { shareHost: "nas.lan", shareAllowedNetworks: ["10.0.0.0/24"] },
};
const image = { registry: "r.lan/csimux", tag: "0.1.0" };
const released = {
  csiDriver: { name: "org.democratic-csi.nfs" },
  storageClasses: [{ name: "nas", parameters: { fsType: "nfs" } }],
  driver: { config },
  controller: { driver: { image } },
  node: { driver: { image } },
};
const withImages = (controller: unknown, node: unknown = image) => ({
  "v.yaml": stringify({
    ...released,
    controller: { driver: { image: controller } },
    node: { driver: { image: node } },
  }),
});

test("democratic-csi's chart puts parameters in quotes, and only that", () => {
  const parameters = { fsType: "nfs", detachedVolumesFromSnapshots: true };
  expect(rulesOf({ "v.yaml": stringify({ ...released, storageClasses: [{ name: "nas", parameters }] }) })).toEqual([]);
  expect(
    gist({ "c1.yaml": nfs(), "class.yaml": storageClass("  connection: c1\n  detachedSnapshots: true\n") }),
  ).toContain('class.yaml:7 parameter-value only "true" and "false" are possible, in quotes');
});

describe("options for mkfs in a class", () => {
  const of = (connection: string, lines: string) => ({
    "c1.yaml": connection,
    "class.yaml": storageClass(`  connection: c1\n${lines}\n`),
  });

  test("of a disk are right if mkfs of its type takes them", () => {
    expect(rulesOf(of(iscsiFile("[nas.lan]"), "  mkfsOptions: -m 1"))).toEqual([]);
    expect(rulesOf(of(iscsiFile("[nas.lan]"), "  mkfsOptions: -m reflink=0\n  fsType: xfs"))).toEqual([]);
    expect(gist(of(iscsiFile("[nas.lan]"), "  mkfsOptions: -m 1\n  fsType: xfs"))).toEqual([
      'class.yaml:7 parameter-value the parameter mkfsOptions: "-m 1" is not a value that a class can give for xfs',
    ]);
  });

  test("have no effect on a share", () => {
    expect(gist(of(nfs(), "  mkfsOptions: -m 1"))).toEqual([
      'class.yaml:7 parameter-without-effect nodes do not see volumes of connection "c1" as disks and make no file system on them',
    ]);
  });
});

describe("a template for names in a class", () => {
  const of = (template: string, ...lines: readonly string[]) => ({
    "c1.yaml": nfs(),
    "class.yaml": storageClass(["  connection: c1", ...lines, `  nameTemplate: "${template}"`, ""].join("\n")),
  });

  test("may use the parameters of the provisioner and of the class itself", () => {
    expect(rulesOf(of("{{ parameters.[csi.storage.k8s.io/pvc/name] }}"))).toEqual([]);
    expect(rulesOf(of("{{ parameters.tier }}-{{ name }}", "  tier: gold"))).toEqual([]);
    expect(rulesOf(of("{{ name }}", "  tier: gold"))).toEqual(["unknown-parameter"]);
  });

  test("must be closed", () => {
    expect(gist(of("{{ name"))).toEqual([
      'class.yaml:7 parameter-value the parameter nameTemplate: "{{ name" has an unclosed placeholder: write {{ name }}',
    ]);
  });
});

describe("a class whose claims have their volumes again", () => {
  const zfs = (protocol: "nfs" | "smb", instance = "instance_id: east\n") =>
    `driver: zfs-generic-${protocol}\n${instance}zfs:\n  datasetParentName: tank/v\n  detachedSnapshotsDatasetParentName: tank/s\n${protocol}:\n  shareHost: nas\n  shareStrategy: setDatasetProperties\n  shareStrategySetDatasetProperties:\n    properties: { share${protocol}: on }\nsshConnection: { host: nas, username: root, password: x }\n`;
  const of = (connection: string, ...lines: readonly string[]) => ({
    "c1.yaml": connection,
    "class.yaml": storageClass(["  connection: c1", ...lines, ""].join("\n")),
  });
  const found = (connection: string, ...lines: readonly string[]) =>
    gist(of(connection, ...lines)).filter(each => each.startsWith("class.yaml") && each.includes("parameter-value"));

  test("names a connection that can do that, and has an instance_id", () => {
    expect(found(zfs("nfs"), "  adopt: byClaim", "  deleteStrategy: retain")).toEqual([]);
    expect(found(zfs("smb", ""), "  deleteStrategy: retain")).toEqual([]);
    expect(found(nfs(), "  deleteStrategy: delete")).toEqual([]);
    expect(found(zfs("nfs", ""), "  adopt: byClaim")).toEqual([
      'class.yaml:7 parameter-value connection "c1" (zfs-generic-nfs) has no instance_id, without which csimux cannot distinguish the volumes of two clusters that use this storage',
    ]);
    expect(found(zfs("smb"), "  adopt: byClaim")).toEqual([
      'class.yaml:7 parameter-value connection "c1" (zfs-generic-smb) does not tell who still uses a volume',
    ]);
    expect(found(nfs(), "  deleteStrategy: retain")).toEqual([
      'class.yaml:7 parameter-value connection "c1" (nfs-client) does not record whose its volumes are',
    ]);
  });

  test("has known values", () => {
    expect(found(zfs("nfs"), "  adopt: always")).toEqual([
      'class.yaml:7 parameter-value the parameter adopt must be "byClaim", not "always"',
    ]);
    expect(found(zfs("nfs"), "  deleteStrategy: keep")).toEqual([
      'class.yaml:7 parameter-value the parameter deleteStrategy must be "delete" or "retain", not "keep"',
    ]);
  });
});

describe("Helm values of democratic-csi's chart", () => {
  test("of one driver have no problem", () => expect(gist({ "v.yaml": stringify(released) })).toEqual([]));

  test.each([
    ["another tag", { registry: "ghcr.io/democratic-csi/democratic-csi", tag: "next" }],
    ["text", "docker.io/democraticcsi/democratic-csi@sha256:0123"],
    ["text with a tag, from a mirror with a port", "mirror.lan:5000/democraticcsi/democratic-csi:latest"],
    ["a tag alone, which is that of the chart's own image", { tag: "v1.9.5" }],
    ["nothing in it", {}],
    ["empty text", ""],
  ])("have an error for the image of democratic-csi: %s", (_, wrong) => {
    expect(rulesOf(withImages(wrong))).toEqual(["helm-image"]);
    expect(rulesOf(withImages(image, wrong))).toEqual(["helm-image"]);
  });

  test.each(["r.lan/csimux@sha256:0123", "r.lan/democratic-csi/csimux:1", "r.lan:5000/mux"])(
    "may name the image %s",
    text => expect(gist(withImages(text))).toEqual([]),
  );

  const env = (...extraEnv: readonly object[]) => ({
    "v.yaml": stringify({
      ...released,
      node: { hostPID: true, driver: { image, extraEnv, iscsiDirHostPath: "/usr/local/etc/iscsi" } },
    }),
  });
  test("may have what democratic-csi needs for iscsiadm on Talos: csimux finds iscsid itself, and says so", () => {
    expect(gist(env())).toEqual([]);
    expect(check(env({ name: "ISCSIADM_HOST_STRATEGY", value: "nsenter" }))).toMatchObject([
      {
        rule: "helm-iscsiadm",
        severity: "warning",
        line: expect.any(Number),
        message: expect.stringContaining("iscsid"),
      },
    ]);
    const usual = check(env({ name: "ISCSIADM_HOST_PATH", value: "/usr/local/sbin/iscsiadm" }));
    expect(usual).toMatchObject([{ rule: "helm-iscsiadm", severity: "warning" }]);
    const other = check(env({ name: "ISCSIADM_HOST_PATH", value: "/opt/iscsi/iscsiadm" }));
    expect(other).toMatchObject([{ rule: "helm-iscsiadm", severity: "error" }]);
  });

  test("of drivers without provisioner need none: node-manual has no section, inline volumes no controller", () => {
    const own = { ...released, storageClasses: [], node: { driver: { image } } };
    const manual = { ...own, driver: { config: { driver: "node-manual" } } };
    expect(gist({ "v.yaml": stringify(manual) })).toEqual([]);
    const inline = { driver: "zfs-local-ephemeral-inline", zfs: { datasetParentName: "tank/inline" } };
    const alone = { ...own, controller: { enabled: false }, driver: { config: inline } };
    expect(gist({ "v.yaml": stringify(alone) })).toEqual([]);
    const zvol = {
      driver: "zfs-local-zvol",
      zfs: { datasetParentName: "tank/a", detachedSnapshotsDatasetParentName: "tank/s" },
    };
    expect(rulesOf({ "v.yaml": stringify({ ...alone, driver: { config: zvol } }) })).toContain("helm-local-driver");
  });

  const secret = (text: string) =>
    stringify({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "old-config" },
      data: { "driver-config-file.yaml": Buffer.from(text).toString("base64") },
    });
  test("of one driver whose file is in a Secret need no connection in their classes, with the Secret and without", () => {
    for (const driver of [{ existingConfigSecret: "old-config", config: { driver: "freenas-api-nfs" } }]) {
      const values = stringify({ ...released, driver });
      expect(gist({ "v.yaml": values })).toEqual([]);
      expect(unseenOf({ "v.yaml": values })).toEqual([
        'Secret "old-config" with the main file was not checked: add its manifest, or name its files',
      ]);
      const both = { "v.yaml": values, "secret.yaml": secret(stringify(config)) };
      expect([gist(both), unseenOf(both)]).toEqual([[], []]);
      const wrong = { ...both, "secret.yaml": secret(stringify({ ...config, zfs: {} })) };
      expect(rulesOf(wrong)).toContain("missing-key");
    }
  });
});

describe("a class for targets that ask for CHAP names the secret with its password", () => {
  const truenas = iscsiFile("[nas.example.org]").replace("AuthType: None", "AuthType: CHAP");
  const dsm =
    "driver: synology-iscsi\nhttpConnection:\n  protocol: https\n  host: nas.example.org\n  port: 5001\n  username: csi\n  password: put-it-here\n" +
    "synology:\n  volume: /volume1\niscsi:\n  targetPortal: nas.example.org\n  baseiqn: 'iqn.2000-01.com.synology:csi.'\n" +
    "  lunTemplate: { type: BLUN }\n  targetTemplate: { auth_type: 1, max_sessions: 0, user: csi, password: put-it-here12 }\n";
  test.each([
    ["TrueNAS", truenas],
    ["LIO", lio(1)],
    ["DSM", dsm],
  ])("%s", (_, file) => {
    const of = (parameters: string) =>
      rulesOf({ "c1.yaml": file, "class.yaml": storageClass(`  connection: c1\n${parameters}`) });
    expect(of("")).toContain("class-without-login");
    expect(of(login)).not.toContain("class-without-login");
  });
  test("without CHAP no secret is needed", () => {
    for (const file of [iscsiFile("[nas.example.org]"), dsm.replace("auth_type: 1", "auth_type: 0")])
      expect(rulesOf({ "c1.yaml": file, "class.yaml": storageClass("  connection: c1\n") })).not.toContain(
        "class-without-login",
      );
  });
});

describe("values inside the objects of GitOps tools are read", () => {
  const bad = { ...released, controller: { driver: {} } };
  const flux = (values: object) =>
    stringify({
      apiVersion: "helm.toolkit.fluxcd.io/v2",
      kind: "HelmRelease",
      metadata: { name: "zfs-nfs" },
      spec: { chart: {}, values },
    });
  const argo = (source: object) =>
    stringify({ apiVersion: "argoproj.io/v1alpha1", kind: "Application", metadata: { name: "zfs" }, spec: source });
  const k3s = (spec: object) =>
    stringify({ apiVersion: "helm.cattle.io/v1", kind: "HelmChart", metadata: { name: "zfs" }, spec });
  const own = { driverName: "csimux.acme.org", storageClasses: [{ name: "a", parameters: { connection: "nax" } }] };
  const nas = stringify({
    driver: "nfs-client",
    nfs: { shareHost: "nas.lan", shareBasePath: "/k", controllerBasePath: "/n" },
  });

  test.each([
    ["Flux", flux(bad)],
    ["Flux, a subchart", flux({ "democratic-csi": bad })],
    ["Argo CD, an object", argo({ source: { helm: { valuesObject: bad } } })],
    ["Argo CD, text", argo({ source: { helm: { values: stringify(bad) } } })],
    ["Argo CD, several sources", argo({ sources: [{ path: "x" }, { helm: { valuesObject: bad } }] })],
    ["k3s, text", k3s({ valuesContent: stringify(bad) })],
    ["a subchart", stringify({ "democratic-csi": bad })],
  ])("of democratic-csi: %s", (_, text) => {
    const [problem, ...more] = check({ "app.yaml": text });
    expect([problem?.rule, more]).toEqual(["helm-image", []]);
    expect(text.split("\n")[(problem?.line ?? 0) - 1]).toMatch(/driver: ?\{?|values(?:Content)?: /);
    expect(rulesOf({ "app.yaml": text.replace("apiVersion: ", "apiVersion: x.") })).not.toContain("yaml-syntax");
  });

  test.each([
    ["Flux", flux({ ...own, connections: { nas } })],
    ["Argo CD, text", argo({ source: { helm: { values: stringify({ ...own, connections: { nas } }) } } })],
    ["Argo CD, an object", argo({ source: { helm: { valuesObject: { ...own, connections: { nas } } } } })],
  ])("of csimux: %s", (_, text) => {
    expect(rulesOf({ "app.yaml": text })).toEqual(["class-connection-missing"]);
    expect(rulesOf({ "app.yaml": text.replace("connection: nax", "connection: nas") })).toEqual([]);
  });

  test("and objects of other charts are left alone", () => {
    expect(
      rulesOf({ "app.yaml": flux({ replicas: 2 }), "b.yaml": argo({ source: { helm: { values: "a: 1\n" } } }) }),
    ).toEqual([]);
  });

  test("values that a HelmChart of k3s takes from Secrets are named as not checked", () => {
    const text = k3s({ chart: "democratic-csi", valuesSecrets: [{ name: "zfs-values", keys: ["values.yaml"] }] });
    expect(unseenOf({ "app.yaml": text })).toEqual([
      'Secret "zfs-values" with values was not checked: name a file with the output of helm get values',
    ]);
  });

  test("values that an object takes from elsewhere are named as not checked", () => {
    const text = stringify({
      apiVersion: "helm.toolkit.fluxcd.io/v2",
      kind: "HelmRelease",
      metadata: { name: "zfs-nfs" },
      spec: { valuesFrom: [{ kind: "Secret", name: "zfs-values" }], values: released },
    });
    expect(gist({ "app.yaml": text })).toEqual([]);
    expect(unseenOf({ "app.yaml": text })).toEqual([
      'Secret "zfs-values" with values was not checked: name a file with the output of helm get values',
    ]);
  });
});
