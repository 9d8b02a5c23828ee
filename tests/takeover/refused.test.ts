import { expect, test } from "bun:test";
import { stringify } from "yaml";
import { readOld } from "../../lib/takeover/old.ts";
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
