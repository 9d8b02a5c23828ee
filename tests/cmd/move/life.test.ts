import { describe, expect, test } from "bun:test";
import { text } from "../../fakes/cluster/objects.ts";
import { moveWorld, toFast } from "./world.ts";

describe("csimux move", () => {
  test("gives three claims of a StatefulSet another volume under the same names, without losing a line", async () => {
    const { cluster, run, close, claim, volumeOf, lines } = await moveWorld({ replicas: 3 });
    try {
      const planned = await run("plan", toFast);
      expect(planned).toMatchObject({ code: 0, err: "" });
      expect(planned.out).toContain("shop/data-db-2  v:a/pvc-data-db-2  20.0 GiB  rsync   statefulset/db (3)");
      expect(cluster.changes).toEqual([]);
      expect(await run("copy", toFast)).toMatchObject({ code: 0, err: "" });
      const stopped = await run("switch", { yes: true });
      expect([stopped.code, stopped.err]).toEqual([0, ""]);
      expect(stopped.out).toMatch(
        /data-db-2: switched; stopped for [0-9.]+ s: the pods' end .* the last pass .* the swap/,
      );
      expect(stopped.out).toContain("kubectl delete statefulset db -n shop --cascade=orphan");
      for (const ordinal of [0, 1, 2]) {
        const name = `data-db-${ordinal}`;
        expect(text(claim(name), "status", "phase")).toBe("Bound");
        expect(text(claim(name), "spec", "storageClassName")).toBe("fast");
        expect(text(claim(name), "metadata", "labels", "app")).toBe("db");
        expect(text(volumeOf(name), "spec", "csi", "volumeHandle")).toStartWith("v:b/moved-");
        const before = cluster.csimux.volumes.get(`v:a/pvc-${name}`)?.lines ?? [];
        expect(before.length).toBeGreaterThan(10);
        expect(lines(name).slice(0, before.length)).toEqual(before);
        // The pods run again and write to the new volume.
        expect(lines(name).length).toBeGreaterThan(before.length);
      }
      expect(cluster.csimux.refusedWrites).toEqual([]);
      expect(await run("finish", { yes: true })).toMatchObject({
        code: 0,
        err: "",
        out: expect.stringContaining("pvc-data-db-0 is deleted, with its data unless deleteStrategy: retain keeps it"),
      });
      expect([...cluster.csimux.volumes.keys()].filter(each => each.startsWith("v:a/"))).toEqual([]);
      expect(text(volumeOf(), "spec", "persistentVolumeReclaimPolicy")).toBe("Delete");
      expect(await run("finish", { yes: true })).toMatchObject({
        code: 0,
        out: expect.stringContaining("is not being moved"),
      });
    } finally {
      close();
    }
  });

  test("undo after the switch gives the old volumes back, with every line from before the stop, and only when the loss is accepted", async () => {
    const { cluster, run, close, claim, lines } = await moveWorld({ replicas: 2 });
    try {
      await run("copy", toFast);
      expect((await run("switch", { yes: true })).code).toBe(0);
      const before = cluster.csimux.volumes.get("v:a/pvc-data-db-1")?.lines.slice() ?? [];
      const changes = cluster.changes.length;
      const refused = await run("undo", { yes: true });
      expect(refused).toMatchObject({ code: 1, err: expect.stringContaining("give --lose-writes-since-switch") });
      expect(cluster.changes.length).toBe(changes);
      expect(await run("undo", { yes: true, loseWritesSinceSwitch: true })).toMatchObject({ code: 0, err: "" });
      expect(text(claim("data-db-1"), "spec", "volumeName")).toBe("pvc-data-db-1");
      expect(text(claim("data-db-1"), "status", "phase")).toBe("Bound");
      expect(lines("data-db-1").slice(0, before.length)).toEqual(before);
      expect(lines("data-db-1").length).toBeGreaterThan(before.length);
      expect(cluster.csimux.refusedWrites).toEqual([]);
      // The new volumes are kept until finish.
      expect([...cluster.csimux.volumes.keys()].filter(each => each.startsWith("v:b/"))).toHaveLength(2);
      expect(await run("finish", { yes: true })).toMatchObject({ code: 0, err: "" });
      expect([...cluster.csimux.volumes.keys()]).toEqual(["v:a/pvc-data-db-0", "v:a/pvc-data-db-1"]);
      const old = cluster.api.find("PersistentVolume", "pvc-data-db-1");
      expect(text(old, "spec", "persistentVolumeReclaimPolicy")).toBe("Delete");
      expect(text(old, "metadata", "annotations", "csimux.storage/move")).toBe("");
    } finally {
      close();
    }
  });

  test("undo before the switch removes the copy, and the claim is as before", async () => {
    const { cluster, run, close } = await moveWorld();
    try {
      const before = structuredClone(cluster.api.find("PersistentVolume", "pvc-data-db-0")?.["spec"]);
      await run("copy", toFast);
      expect(await run("undo", { yes: true })).toMatchObject({ code: 0, err: "" });
      expect(cluster.api.find("PersistentVolume", "pvc-data-db-0")?.["spec"]).toEqual(before);
      expect([...cluster.csimux.copies.values()].map(each => each.state)).toEqual(["cancelled"]);
      // The next move of the same claim has another name, because the cancelled copy is still known.
      expect(await run("copy", toFast)).toMatchObject({ code: 0, err: "" });
      expect([...cluster.csimux.copies.keys()].at(-1)).toEndWith("-2");
    } finally {
      close();
    }
  });

  test("a volume that was kept before the move is kept after finish", async () => {
    const { cluster, run, close } = await moveWorld({ policy: "Retain" });
    try {
      await run("copy", toFast);
      await run("switch", { yes: true });
      const { code, out } = await run("finish");
      expect([code, out]).toEqual([0, expect.stringContaining("had the policy Retain before the move, and stays")]);
      expect(cluster.csimux.volumes.has("v:a/pvc-data-db-0")).toBe(true);
    } finally {
      close();
    }
  });

  test("a storage that cannot freeze is moved, and that is said", async () => {
    const { cluster, run, close } = await moveWorld();
    try {
      cluster.csimux.options = { cannotFreeze: true };
      await run("copy", toFast);
      const { code, out } = await run("switch", { yes: true });
      expect([code, out]).toEqual([
        0,
        expect.stringContaining("stays writable, because its storage cannot set it to read-only"),
      ]);
      expect(await run("undo", { yes: true, loseWritesSinceSwitch: true })).toMatchObject({ code: 0, err: "" });
    } finally {
      close();
    }
  });

  test("switch asks before it stops pods, and stops none where no person can answer", async () => {
    const { cluster, run, close } = await moveWorld();
    try {
      await run("copy", toFast);
      const changes = cluster.changes.length;
      const { code, err } = await run("switch");
      expect([code, err]).toEqual([1, expect.stringContaining("There is no terminal to ask on; give --yes")]);
      expect(cluster.changes.length).toBe(changes);
    } finally {
      close();
    }
  });
});
