import { expect, test } from "bun:test";
import { stringify } from "yaml";
import { leftOver } from "../../lib/takeover/left.ts";
import { readOld, readSecrets } from "../../lib/takeover/old.ts";
import { movedVolumes } from "../../lib/takeover/volumes.ts";

const values = {
  csiDriver: { name: "org.democratic-csi.nfs" },
  driver: { config: { driver: "freenas-api-nfs" } },
};

test.each([
  ["a driver name that is a path", { csiDriver: { name: "../../../x" } }, '"csiDriver.name" is "../../../x"'],
  ["a driver name with a line feed", { csiDriver: { name: "a.b\nc" } }, '"csiDriver.name" is "a.b\\nc"'],
  [
    "a kubelet folder with a line feed",
    { node: { kubeletHostPath: "/var/lib/kubelet\n      x: y" } },
    '"node.kubeletHostPath" must be an absolute path',
  ],
])("values with %s are not taken over", (_, more, why) => {
  const read = (all: object) => readOld("values.yaml", stringify(all), undefined, new Map());
  expect(read({ ...values, ...more })).toEqual({ file: "values.yaml", why: expect.stringContaining(why) });
  expect(read({ ...values, node: { kubeletHostPath: "/var/snap/microk8s/common/var/lib/kubelet" } })).toMatchObject({
    name: "org.democratic-csi.nfs",
  });
});

const gitops = (object: object) => stringify({ metadata: { name: "zfs" }, ...object });
test.each([
  ["a subchart", stringify({ "democratic-csi": values })],
  ["a HelmRelease of Flux", gitops({ apiVersion: "helm.toolkit.fluxcd.io/v2", kind: "HelmRelease", spec: { values } })],
  [
    "a subchart in a HelmRelease",
    gitops({ apiVersion: "helm.toolkit.fluxcd.io/v2", kind: "HelmRelease", spec: { values: { csi: values } } }),
  ],
  [
    "text in a HelmChart of k3s",
    gitops({ apiVersion: "helm.cattle.io/v1", kind: "HelmChart", spec: { valuesContent: stringify(values) } }),
  ],
  [
    "text in an Application of Argo CD",
    gitops({
      apiVersion: "argoproj.io/v1alpha1",
      kind: "Application",
      spec: { source: { helm: { values: stringify(values) } } },
    }),
  ],
])("values are found in %s", (_, text) => {
  expect(readOld("values.yaml", text, undefined, new Map())).toMatchObject({
    name: "org.democratic-csi.nfs",
    config: values.driver.config,
    values,
  });
});

test("files that sops has encrypted are named as such", () => {
  const sealed = stringify({ ...values, sops: { mac: "ENC[AES256_GCM,data:x]" } });
  const read = readOld("values.yaml", sealed, undefined, new Map());
  expect(read).toEqual({ file: "values.yaml", why: expect.stringContaining("encrypted by sops") });
  const secret = {
    kind: "Secret",
    metadata: { name: "old" },
    stringData: { "driver-config-file.yaml": "ENC[AES256_GCM]" },
  };
  const texts = [{ file: "secret.yaml", text: stringify({ ...secret, sops: { mac: "ENC[x]" } }) }];
  const inSecret = { ...values, driver: { existingConfigSecret: "old" } };
  expect(readOld("values.yaml", stringify(inSecret), undefined, readSecrets(texts))).toEqual({
    file: "values.yaml",
    why: expect.stringContaining("encrypted by sops"),
  });
});

test.each([
  [{ node: { hostPID: true } }, "node.hostPID: not carried over: csimux finds the host's daemons through /host/proc"],
  [{ node: { driver: { iscsiDirHostPath: "/usr/local/etc/iscsi" } } }, "iscsiadm where iscsid runs"],
  [
    { node: { driver: { extraEnv: [{ name: "ISCSIADM_HOST_STRATEGY", value: "nsenter" }] } } },
    "iscsiadm where iscsid runs",
  ],
  [
    { node: { driver: { extraEnv: [{ name: "ISCSIADM_HOST_PATH", value: "/opt/iscsiadm" }] } } },
    "/opt/iscsiadm: csimux looks",
  ],
  [{ node: { driver: { extraEnv: [{ name: "HTTP_PROXY", value: "x" }] } } }, "HTTP_PROXY: not carried over: if you"],
  [{ node: { tolerations: [{ operator: "Exists" }] } }, "node.tolerations: not carried over: node.yaml tolerates"],
  [{ node: { driver: { imagePullPolicy: "Always" } } }, "node.driver.imagePullPolicy: not carried over: Kubernetes"],
  [
    { node: { driver: { resources: { limits: {}, requests: { cpu: 1 } } } } },
    "node.driver.resources: not carried over: node.yaml has",
  ],
])("what is left of %j is said truly", (left, words) => {
  const [line, ...more] = leftOver(left);
  expect(line).toContain(words);
  expect(more).toEqual([]);
});

test("a volume whose name is a path or a flag stays under its old name: the name becomes a file and a word of commands", () => {
  const volume = (name: string, persistentVolumeReclaimPolicy = "Delete") => ({
    metadata: { name },
    spec: { persistentVolumeReclaimPolicy, csi: { driver: "org.democratic-csi.nfs", volumeHandle: "pvc" } },
  });
  const all = [volume("../../../../evil"), volume("--all"), volume("pvc-3", "Delete'; true '"), volume("pvc-4.a")];
  const { moved, refused } = movedVolumes(all, new Map([["org.democratic-csi.nfs", "nfs"]]), "org.example");
  expect(moved.map(({ name }) => name)).toEqual(["pvc-4.a"]);
  expect(refused).toEqual([
    "../../../../evil: Kubernetes has no objects of this name",
    "--all: Kubernetes has no objects of this name",
    "pvc-3: Kubernetes has no such persistentVolumeReclaimPolicy",
  ]);
});
