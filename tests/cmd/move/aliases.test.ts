import { expect, test } from "bun:test";
import { text } from "../../fakes/cluster/objects.ts";
import { passing, pause } from "../../waiting.ts";
import { moveWorld, toFast } from "./world.ts";

const alias = "org.democratic-csi.nfs";

test("volumes of an alias, whose ids have no prefix, get volumes of the main driver, without losing a line", async () => {
  const { cluster, run, close, volumeOf, lines } = await moveWorld({ replicas: 2, alias });
  try {
    const planned = await run("plan", toFast);
    expect(planned).toMatchObject({ code: 0, err: "" });
    expect(planned.out).toContain("shop/data-db-1  v:a/pvc-data-db-1  20.0 GiB");
    expect(await run("copy", toFast)).toMatchObject({ code: 0, err: "" });
    expect(await run("switch", { yes: true })).toMatchObject({ code: 0, err: "" });
    for (const name of ["data-db-0", "data-db-1"]) {
      const before = cluster.csimux.volumes.get(`v:a/pvc-${name}`);
      expect(before?.isFrozen).toBe(true);
      expect(lines(name).slice(0, before?.lines.length)).toEqual(before?.lines ?? []);
      expect(text(volumeOf(name), "spec", "csi", "driver")).toBe("csimux.storage");
      expect(text(volumeOf(name), "spec", "csi", "volumeHandle")).toStartWith("v:b/moved-");
    }
    expect(cluster.csimux.refusedWrites).toEqual([]);
    expect(await run("undo", { yes: true, loseWritesSinceSwitch: true })).toMatchObject({ code: 0, err: "" });
    expect(text(volumeOf(), "spec", "csi", "driver")).toBe(alias);
    expect(cluster.csimux.volumes.get("v:a/pvc-data-db-0")?.isFrozen).toBe(false);
    expect(await run("finish", { yes: true })).toMatchObject({ code: 0, err: "" });
    expect([...cluster.csimux.volumes.keys()]).toEqual(["v:a/pvc-data-db-0", "v:a/pvc-data-db-1"]);
    await run("copy", toFast);
    await run("switch", { yes: true });
    expect(await run("finish", { yes: true })).toMatchObject({ code: 0, err: "" });
    expect([...cluster.csimux.volumes.keys()].filter(each => each.startsWith("v:a/"))).toEqual([]);
  } finally {
    close();
  }
});

test("nothing is stopped while a node has the volume of an alias staged", async () => {
  const { cluster, run, close } = await moveWorld({ alias });
  try {
    await run("copy", toFast);
    const staged = cluster.csimux.volumes.get("v:a/pvc-data-db-0")?.staged;
    if (staged) staged.delete = () => false;
    const stopping = run("switch", { yes: true });
    await Bun.sleep(0);
    for (let left = 200; left > 0 && cluster.changes.every(each => !each.startsWith("scale")); left--) await pause(10);
    // The command looks every 10 ms, and must not continue at any of these times.
    await passing(100);
    expect(cluster.changes.filter(each => each.startsWith("copies freeze"))).toEqual([]);
    if (staged) staged.delete = Set.prototype.delete;
    cluster.add();
    expect((await stopping).code).toBe(0);
  } finally {
    close();
  }
});

const other: readonly (readonly [string, { readonly by?: string; readonly connection?: string }, string])[] = [
  ["a class of another driver", { by: "other.driver" }, "belongs to other.driver"],
  ["a class that leads to its own connection", { connection: "a" }, "is on connection a already"],
];
test.each(other)(
  "a volume of an alias does not move to %s",
  async (_, { by = "csimux.storage", connection = "b" }, why) => {
    const { cluster, run, close } = await moveWorld({ alias });
    try {
      cluster.add({
        ...{ apiVersion: "storage.k8s.io/v1", kind: "StorageClass", metadata: { name: "third" } },
        ...{ provisioner: by, parameters: { connection } },
      });
      expect(await run("plan", { toClass: "third" })).toMatchObject({ code: 1, err: expect.stringContaining(why) });
    } finally {
      close();
    }
  },
);
