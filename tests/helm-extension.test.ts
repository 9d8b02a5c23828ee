import { describe, expect, test } from "bun:test";
import { hasGoProgram } from "../scripts/cluster/tools.ts";
import { rendered, required } from "./helm.ts";

const texts = { "example.org/team": "storage" };
const mount = { name: "keys", mountPath: "/run/secrets/nas", readOnly: true };
const volume = { name: "keys", secret: { secretName: "nas-keys" } };
const aliases = [{ ip: "10.0.0.5", hostnames: ["nas.lan"] }];
const affinity = { nodeAffinity: {} };
const part = {
  ...{ extraArgs: ["--log-level=debug"], extraEnv: [{ name: "NODE_ZONE", value: "a" }], extraVolumes: [volume] },
  ...{ extraVolumeMounts: [mount], podLabels: texts, podAnnotations: texts, affinity, hostAliases: aliases },
  ...{ priorityClassName: "high", nodeSelector: texts, tolerations: [{ key: "nas", operator: "Exists" }] },
};

describe.skipIf(!hasGoProgram("helm"))("the chart", () => {
  test.each(["Deployment", "DaemonSet"])("gives the pods of the %s what users add", async kind => {
    const image = { ...required.image, pullPolicy: "Always" };
    const values = { image, imagePullSecrets: [{ name: "registry" }], controller: part, node: part };
    const [object] = (await rendered(values)).filter(each => each.kind === kind);
    const { metadata, spec } = object?.["spec"].template ?? {};
    expect(metadata).toMatchObject({ labels: { "app.kubernetes.io/name": "csimux", ...texts }, annotations: texts });
    expect(spec).toMatchObject({
      ...{ imagePullSecrets: [{ name: "registry" }], affinity, hostAliases: aliases, priorityClassName: "high" },
      ...{ nodeSelector: { "kubernetes.io/os": "linux", ...texts }, tolerations: part.tolerations },
    });
    const [csimux] = spec.containers;
    expect(csimux.imagePullPolicy).toBe("Always");
    expect(csimux.args).toEqual(expect.arrayContaining(["serve", ...part.extraArgs]));
    expect(csimux.env).toEqual(expect.arrayContaining(part.extraEnv));
    expect(csimux.volumeMounts).toEqual(expect.arrayContaining([mount]));
    expect(spec.volumes).toEqual(expect.arrayContaining([volume]));
  });

  test("puts labels and annotations of classes into their metadata, and takes fsGroupPolicy, seLinuxMount, nodeAllocatableUpdatePeriodSeconds and further objects", async () => {
    const named = { name: "nas", labels: texts, annotations: texts, default: true };
    const extra = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "extra" }, data: { a: "b" } };
    const classes = { storageClasses: [named], volumeSnapshotClasses: [named] };
    const objects = await rendered({
      ...required,
      ...classes,
      fsGroupPolicy: "None",
      seLinuxMount: true,
      nodeAllocatableUpdatePeriodSeconds: 60,
      extraObjects: [extra],
    });
    expect(objects).toContainEqual(extra);
    expect(objects.find(({ kind }) => kind === "CSIDriver")?.["spec"]).toMatchObject({
      fsGroupPolicy: "None",
      seLinuxMount: true,
      nodeAllocatableUpdatePeriodSeconds: 60,
    });
    for (const [kind, group] of [
      ["StorageClass", "storageclass"],
      ["VolumeSnapshotClass", "snapshot.storage"],
    ]) {
      const found = objects.find(each => each.kind === kind);
      const annotations = { ...texts, [`${group}.kubernetes.io/is-default-class`]: "true" };
      expect(found?.metadata).toMatchObject({ labels: texts, annotations });
      expect(found).not.toHaveProperty("annotations");
    }
  });
});
