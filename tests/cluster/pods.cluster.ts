import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { Node } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { csiClient } from "../../scripts/client.ts";
import { state } from "../../scripts/cluster/place.ts";
import { byNode, deployCentral, drivers, folderConnection, undeploy } from "./deploy.ts";
import { apply, bound, eventually, get, inPod, kube, ready, remove, removeSoon, running, warnings } from "./kube.ts";
import { claim, pod, snapshot, storageClass } from "./objects.ts";
import { mountFilesystem, unmountFilesystem } from "./scenes/filesystem.ts";
import { tidy } from "./scenes/left.ts";

/** File systems of their own, with the folders of the connection of their name. */
const filesystems = ["ext4", "xfs"] as const;

beforeAll(async () => {
  for (const type of filesystems) await mountFilesystem(type);
  const more = Object.fromEntries(filesystems.map(type => [type, folderConnection(type)]));
  await deployCentral({ ...byNode, connections: { ...byNode.connections, ...more } });
  const now = { volumeBindingMode: "Immediate" };
  await apply(...["fast", ...filesystems].map(name => storageClass(name, drivers.central, name, now)));
});
afterEach(() => tidy());
afterAll(async () => {
  await kube("delete", "storageclass", "fast", ...filesystems);
  await undeploy("cluster");
  for (const type of filesystems) await unmountFilesystem(type);
});

const user = (fsGroup: number) => ({ securityContext: { runAsUser: 1000, runAsGroup: 3000, fsGroup } });

describe("a pod", () => {
  test.each(["fast", ...filesystems])(
    "without root writes by its fsGroup, and another group takes over later (%s)",
    async name => {
      await apply(claim("a", name), pod("one", "a", { spec: user(2000), run: "echo x > /data/f" }));
      await running("one");
      expect(await inPod("one", "stat -c %g /data /data/f")).toBe("2000\n2000\n");
      await remove("pod", "one");
      await apply(pod("two", "a", { spec: user(4000) }));
      await running("two");
      expect(await inPod("two", "echo y >> /data/f; stat -c %g /data/f")).toBe("4000\n");
    },
  );

  test("with a read-only mount reads and cannot write", async () => {
    await apply(claim("a", "fast"), pod("one", "a", { run: "echo x > /data/f" }));
    await running("one");
    await apply(pod("two", "a", { mount: { readOnly: true } }), pod("three", "a", { claim: { readOnly: true } }));
    await running("two", "three");
    for (const name of ["two", "three"])
      expect(await inPod(name, "cat /data/f; touch /data/g 2>/dev/null && echo written || echo refused")).toBe(
        "x\nrefused\n",
      );
  });

  test("sees one folder of the volume with subPath, also where the name comes from a variable", async () => {
    await apply(claim("a", "fast"), pod("one", "a", { mount: { subPath: "deep/er" }, run: "echo x > /data/f" }));
    await running("one");
    const env = [{ name: "WHO", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } }];
    await apply(
      pod("two", "a", { mount: { subPathExpr: "by/$(WHO)" }, container: { env }, run: "echo y > /data/f" }),
      pod("all", "a"),
    );
    await running("two", "all");
    expect(await inPod("all", "cat /data/deep/er/f /data/by/two/f")).toBe("x\ny\n");
  });

  test("has exclusive use of a ReadWriteOncePod volume", async () => {
    await apply(claim("a", "fast", { modes: ["ReadWriteOncePod"] }), pod("one", "a"));
    await running("one");
    await apply(pod("two", "a"));
    const said = await eventually("a warning", 60_000, async () => (await warnings("two"))[0]);
    expect(said).toContain("ReadWriteOncePod");
    await remove("pod", "one");
    await running("two");
  });

  test("shares a ReadWriteMany volume with another", async () => {
    await apply(claim("a", "fast", { modes: ["ReadWriteMany"] }), pod("one", "a"), pod("two", "a"));
    await running("one", "two");
    await inPod("one", "echo x > /data/f");
    expect(await inPod("two", "cat /data/f")).toBe("x\n");
  });

  test("reads a volume restored from a snapshot, ReadOnlyMany", async () => {
    await apply(claim("a", "fast"), pod("one", "a", { run: "echo x > /data/f; sync" }));
    await running("one");
    await apply(snapshot("s", "a", "csimux"));
    await ready("s");
    await apply(
      claim("b", "fast", { modes: ["ReadOnlyMany"], from: { snapshot: "s" } }),
      pod("two", "b", { claim: { readOnly: true } }),
    );
    await running("two");
    expect(await inPod("two", "cat /data/f")).toBe("x\n");
  });

  test("gets no block device from a folder, and its claim's events say so", async () => {
    await apply(claim("a", "fast", { block: true }));
    const said = await eventually("a warning", 60_000, async () => (await warnings("a"))[0]);
    expect(said).toMatch(/block/i);
  });

  test("keeps its volume while its claim is being deleted", async () => {
    await apply(claim("a", "fast"), pod("one", "a"));
    await running("one");
    await removeSoon("pvc", "a");
    expect(await inPod("one", "echo x > /data/f && cat /data/f")).toBe("x\n");
    expect((await get("pvc", "a")).metadata.name).toBe("a");
  });
});

describe("a volume", () => {
  test("that was retained is bound again and has its files", async () => {
    await apply(claim("a", "fast"), pod("one", "a", { run: "echo x > /data/f; sync" }));
    await running("one");
    const { metadata } = await bound("a");
    const policy = (to: string) =>
      kube("patch", "pv", metadata.name, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"${to}"}}`);
    await policy("Retain");
    await remove("pod", "one");
    await remove("pvc", "a");
    await kube("patch", "pv", metadata.name, "-p", '{"spec":{"claimRef":null}}');
    const again = claim("b", "fast");
    await apply({ ...again, spec: { ...again.spec, volumeName: metadata.name } }, pod("two", "b"));
    await running("two");
    expect(await inPod("two", "cat /data/f")).toBe("x\n");
    await policy("Delete");
  });

  test("described in a PersistentVolume by hand can be mounted", async () => {
    await apply(claim("a", "fast"), pod("one", "a", { run: "echo x > /data/f; sync" }));
    await running("one");
    const { spec } = await bound("a");
    const csi = {
      driver: drivers.central,
      volumeHandle: spec.csi.volumeHandle,
      volumeAttributes: spec.csi.volumeAttributes,
    };
    await apply({
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name: "by-hand" },
      spec: {
        accessModes: ["ReadWriteMany"],
        capacity: { storage: "64Mi" },
        storageClassName: "none",
        persistentVolumeReclaimPolicy: "Retain",
        csi: { ...csi, volumeHandle: csi.volumeHandle },
      },
    });
    const hand = claim("hand", "none", { modes: ["ReadWriteMany"] });
    await apply({ ...hand, spec: { ...hand.spec, volumeName: "by-hand" } }, pod("two", "hand"));
    await running("two");
    expect(await inPod("two", "cat /data/f")).toBe("x\n");
    await remove("pod", "two");
    await remove("pvc", "hand");
    await remove("pv", "by-hand");
  });

  test("reports its usage where kubelet has mounted it", async () => {
    await apply(claim("a", "fast"), pod("one", "a"));
    await running("one");
    const { metadata, spec } = await bound("a");
    const { uid } = (await get("pod", "one")).metadata;
    const volumePath = `/var/lib/kubelet/pods/${uid}/volumes/kubernetes.io~csi/${metadata.name}/mount`;
    const client = csiClient(join(state, "kubelet/plugins", drivers.central, "csi.sock"));
    try {
      const { usage } = await client.call(Node.method.nodeGetVolumeStats, {
        volumeId: spec.csi.volumeHandle,
        volumePath,
      });
      expect(usage.map(({ total }) => total > 0n)).toEqual([true, true]);
    } finally {
      client.close();
    }
  });
});
