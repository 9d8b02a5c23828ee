import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { modules } from "../lib/drivers/index.ts";
import { lint } from "../lib/lint/lint.ts";
import { hasGoProgram } from "../scripts/cluster/tools.ts";
import { chart, helm, type KubeObject, rendered, required } from "./helm.ts";

const share = JSON.stringify({
  driver: "nfs-client",
  nfs: { shareHost: "nas.lan", shareBasePath: "/k8s", controllerBasePath: "/nas" },
});
const disk = JSON.stringify({
  driver: "local-hostpath",
  "local-hostpath": { shareBasePath: "/srv/volumes", controllerBasePath: "/srv/volumes" },
});
const central = {
  ...required,
  connections: { nas: share },
  storageClasses: [{ name: "nas", parameters: { connection: "nas" } }],
};
const local = {
  ...required,
  mode: "node-local",
  connections: { disk },
  storageClasses: [{ name: "disk", parameters: { connection: "disk" } }],
  node: { volumeFolders: ["/srv/volumes"] },
};

const of = (objects: readonly KubeObject[], kind: string): readonly KubeObject[] =>
  objects.filter(each => each.kind === kind);
const one = (objects: readonly KubeObject[], kind: string): KubeObject => {
  const [object] = of(objects, kind);
  if (object === undefined) throw new Error(`the chart made no ${kind}`);
  return object;
};
const podOf = (object: KubeObject) => object["spec"].template.spec;
const names = (list: readonly { readonly name: string }[]): readonly string[] => list.map(({ name }) => name);
const file = (object: KubeObject, name: string): string => Buffer.from(object["data"][name], "base64").toString();

/** What csimux validate --strict says about the objects. */
const problems = (objects: readonly KubeObject[]): readonly string[] =>
  lint([{ file: "rendered.yaml", text: objects.map(each => JSON.stringify(each)).join("\n---\n"), role: "given" }], {
    modules,
    resolver: { env: () => undefined, file: () => undefined },
    checkEnvironment: false,
  }).problems.map(({ rule, message }) => `${rule}: ${message}`);

describe.skipIf(!hasGoProgram("helm"))("the chart", () => {
  test("gives the snapshot class of each release a name of its own, so that central and node-local fit into one cluster", async () => {
    const [first, second] = await Promise.all([rendered(central), rendered(local)]);
    const names = [first, second].map(objects => one(objects, "VolumeSnapshotClass").metadata.name);
    expect(names).toEqual(["csimux", "csimux-local"]);
    const clusterWide = (objects: readonly KubeObject[]) =>
      objects.filter(({ metadata }) => !metadata.namespace).map(({ kind, metadata }) => `${kind}/${metadata.name}`);
    const both = clusterWide(first);
    expect(clusterWide(second).filter(each => both.includes(each))).toEqual([]);
  });

  test.each([
    ["central", central],
    ["node-local", local],
  ])("passes helm lint --strict in mode %s", async (_, values) => {
    const { code, stdout } = await helm(["lint", "--strict", "--kube-version", "1.36.0"], values);
    expect([code, stdout]).toEqual([0, expect.stringContaining("0 chart(s) failed")]);
  });

  test.each([
    ["with monitoring", { alerts: { enabled: true }, podMonitor: { enabled: true } }],
    [
      "with a main file",
      { groups: {}, main: "driver: proxy\nproxy:\n  configFolder: /connections\n  nodeTopology: { type: node }\n" },
    ],
    ["without attaching", { attachRequired: false }],
    ["with an unprivileged controller", { controller: { privileged: false, replicas: 1 } }],
    ["under other names", { nameSuffix: "-two", driverName: "two.example.org" }],
    ["without classes", { storageClasses: [], volumeSnapshotClasses: [] }],
    ["with a Secret made elsewhere", { existingSecret: "sealed" }],
  ])("makes objects in which csimux validate finds nothing, %s", async (_, more) => {
    for (const mode of [central, local]) {
      const groups = { all: { members: Object.keys(mode.connections) } };
      const objects = await rendered({ ...mode, groups, ...more });
      expect(objects.length).toBeGreaterThan(8);
      expect(problems(objects)).toEqual([]);
    }
  });

  test.each(["/var/lib/kubelet", "/var/lib/k0s/kubelet", "/var/snap/microk8s/common/var/lib/kubelet/"])(
    "uses kubelet's folder %s everywhere",
    async kubeletFolder => {
      const kubelet = kubeletFolder.replace(/\/$/, "");
      for (const mode of [central, local]) {
        const node = JSON.stringify(one(await rendered({ ...mode, node: { kubeletFolder } }), "DaemonSet"));
        const paths = [...node.matchAll(/"(\/[^"]*kubelet[^"]*)"/g)].map(([, path]) => path);
        expect(new Set(paths)).toEqual(
          new Set([
            kubelet,
            `${kubelet}/plugins/csimux.storage${mode === local ? "-local" : ""}`,
            `${kubelet}/plugins_registry`,
          ]),
        );
      }
    },
  );

  test.each(["configFolder: '/connections'", 'configFolder: "/connections" # x', '"configFolder":"/connections"'])(
    "takes a main file with %s",
    async folder => {
      const main = `{driver: proxy, proxy: {\n${folder}\n}}\n`;
      expect(one(await rendered({ ...central, main }), "ConfigMap")["data"]["proxy.yaml"]).toBe(main);
    },
  );

  test("keeps connection files and the main file as they are", async () => {
    const text = "# of 2019\ndriver: nfs-client\nnfs: {dirPermissionsMode: 0770, shareHost: 010, shareBasePath: yes}\n";
    const main =
      "driver: proxy\nproxy:\n  # of 2020\n  configFolder: /connections\nsshConnection: { password: 0123 }\n";
    const objects = await rendered({ ...central, connections: { text }, main });
    expect(file(one(objects, "Secret"), "text.yaml")).toBe(text);
    expect(one(objects, "ConfigMap")["data"]["proxy.yaml"]).toBe(main);
  });

  test("writes a main file with groups, and restarts pods with another one", async () => {
    const groups = { all: { members: ["nas"], policy: "spread" } };
    const before = one(await rendered(central), "ConfigMap");
    const after = one(await rendered({ ...central, groups }), "ConfigMap");
    expect(parse(before["data"]["proxy.yaml"])).toEqual({ driver: "proxy", proxy: { configFolder: "/connections" } });
    expect(parse(after["data"]["proxy.yaml"]).proxy).toEqual({ configFolder: "/connections", groups });
    expect(after.metadata.name).not.toBe(before.metadata.name);
  });

  test("attaches nothing with attachRequired: false", async () => {
    const objects = await rendered({ ...central, attachRequired: false });
    expect(one(objects, "CSIDriver")["spec"].attachRequired).toBe(false);
    expect(names(podOf(one(objects, "Deployment")).containers)).not.toContain("attacher");
    expect(names(objects.map(({ metadata }) => metadata)).filter(name => name.includes("attacher"))).toEqual([]);
  });

  test("mounts an existing Secret and creates none", async () => {
    const objects = await rendered({ ...central, existingSecret: "sealed" });
    expect(of(objects, "Secret")).toEqual([]);
    const volumes = podOf(one(objects, "Deployment")).volumes as { name: string; secret?: { secretName: string } }[];
    expect(volumes.find(({ name }) => name === "connections")?.secret?.secretName).toBe("sealed");
  });

  test("lets the sidecars read Secrets only if a class names one for them", async () => {
    for (const mode of [central, local])
      for (const who of ["provisioner", "node-stage"]) {
        const key = `csi.storage.k8s.io/${who}-secret`;
        const parameters = { ...mode.storageClasses[0]?.parameters, [`${key}-name`]: "s", [`${key}-namespace`]: "n" };
        const objects = await rendered({ ...mode, storageClasses: [{ name: "secret", parameters }] });
        expect(problems(objects)).toEqual([]);
        const rules = objects.flatMap(({ kind, metadata, ...rest }) =>
          ((rest["rules"] ?? []) as { resources: string[]; resourceNames?: string[] }[])
            .filter(({ resources }) => resources.includes("secrets"))
            .map(({ resourceNames }) => ({ kind, namespace: metadata.namespace, resourceNames })),
        );
        const only = { kind: "Role", namespace: "n", resourceNames: ["s"] };
        expect(rules).toEqual(who === "provisioner" ? [only] : []);
      }
  });

  test("marks default classes, and takes every field of a class", async () => {
    const classes = [
      { name: "a", default: true, parameters: { connection: "nas" }, reclaimPolicy: "Retain", mountOptions: ["ro"] },
    ];
    const [made] = of(await rendered({ ...central, storageClasses: classes }), "StorageClass");
    expect(made).toMatchObject({
      metadata: { name: "a", annotations: { "storageclass.kubernetes.io/is-default-class": "true" } },
      reclaimPolicy: "Retain",
      mountOptions: ["ro"],
      volumeBindingMode: "WaitForFirstConsumer",
      allowVolumeExpansion: true,
    });
    expect(made).not.toHaveProperty("default");
  });

  test("names images by tag, by digest, or by its own version, and those of sidecars as told", async () => {
    const imageOf = async (image: object) =>
      podOf(one(await rendered({ ...central, image }), "DaemonSet")).containers[0].image;
    const { repository } = required.image;
    const digest = `sha256:${"a".repeat(64)}`;
    const { appVersion, version } = parse(readFileSync(`${chart}/Chart.yaml`, "utf8"));
    expect(await imageOf({ repository, tag: "7" })).toBe(`${repository}:7`);
    expect(await imageOf({ repository, digest })).toBe(`${repository}@${digest}`);
    expect(await imageOf({ repository })).toBe(`${repository}:${appVersion}`);
    const project = JSON.parse(readFileSync(`${chart}/../../../package.json`, "utf8")) as { version: string };
    expect([version, appVersion]).toEqual([project.version, project.version]);
    const resizer = "registry.lan/csi-resizer:v2";
    const deployment = one(await rendered({ ...central, sidecars: { resizer } }), "Deployment");
    expect(podOf(deployment).containers).toContainEqual(expect.objectContaining({ name: "resizer", image: resizer }));
  });

  test("makes the alert rules and the scraping of examples/monitoring", async () => {
    const monitoring = { enabled: true, labels: { release: "p" } };
    const objects = await rendered({ ...central, alerts: monitoring, podMonitor: monitoring });
    const read = (name: string) => parse(readFileSync(`${chart}/../../monitoring/${name}.yaml`, "utf8"));
    expect(one(objects, "PrometheusRule")["spec"]).toEqual(read("alerts"));
    const { matchLabels } = read("podmonitor").spec.selector;
    const instance = { "app.kubernetes.io/instance": "csimux" };
    expect(one(objects, "PodMonitor")["spec"]).toEqual({
      ...read("podmonitor").spec,
      selector: { matchLabels: { ...matchLabels, ...instance } },
    });
    for (const kind of ["PrometheusRule", "PodMonitor"])
      expect(one(objects, kind).metadata.labels).toMatchObject({ release: "p" });
  });

  test.each([
    ["driverName", { ...central, driverName: "two words" }],
    ["image.repository is required", { ...central, image: { repository: "" } }],
    ["conections", { ...central, conections: {} }],
    ["kubeletFolder", { ...central, node: { kubeletFolder: "var/lib/kubelet" } }],
    ["members", { ...central, groups: { all: {} } }],
    ["mode", { ...central, mode: "both" }],
    ["connections", { ...central, connections: { nas: { driver: "nfs-client" } } }],
    ["configFolder", { ...central, main: "driver: proxy\nproxy: { configFolder: /else }\n" }],
    ["groups", { ...central, groups: { all: { members: ["nas"] } }, main: "configFolder: /connections" }],
    ["provisioner", { ...central, storageClasses: [{ name: "nas", provisioner: "other" }] }],
  ])("refuses wrong values with a word about %s", async (word, values) => {
    expect(await rendered(values).catch(String)).toContain(word);
  });
});
