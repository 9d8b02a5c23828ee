import { describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { move } from "../../../cmd/cluster/move/move.ts";
import { text } from "../../fakes/cluster/objects.ts";
import { fakeKubectl } from "../../fakes/kubectl.ts";
import { claimAndVolume, moveWorld, storageClass, toFast } from "./world.ts";

describe("csimux move changes nothing", () => {
  test("without a right, and names all that are missing", async () => {
    const { cluster, run, close } = await moveWorld();
    try {
      cluster.denied.add("delete persistentvolumeclaims").add("create pods/exec");
      const { code, err } = await run("copy", toFast);
      expect(code).toBe(1);
      expect(err).toBe(
        "csimux: you may not delete persistentvolumeclaims in namespace shop; create pods/exec in namespace storage (kubectl auth can-i); ask for these rights\n",
      );
      expect(cluster.changes).toEqual([]);
    } finally {
      close();
    }
  });

  test("when the controller refuses one of several claims", async () => {
    const { cluster, run, close } = await moveWorld({ replicas: 2 });
    try {
      cluster.csimux.options = { refuses: "connection b keeps blocks, and the source has files" };
      const { code, err } = await run("copy", toFast);
      expect(code).toBe(1);
      expect(err).toContain("claim shop/data-db-1: connection b keeps blocks, and the source has files");
      expect(cluster.changes).toEqual([]);
    } finally {
      close();
    }
  });

  test("with a command before its turn", async () => {
    const { cluster, run, close } = await moveWorld();
    try {
      expect((await run("switch", { yes: true })).err).toContain("is not being moved; begin with csimux move copy");
      expect((await run("undo", { yes: true })).out).toContain("is not being moved");
      await run("copy", toFast);
      const { length } = cluster.changes;
      expect((await run("finish", { yes: true })).err).toContain("has not been switched");
      expect(cluster.changes.length).toBe(length);
    } finally {
      close();
    }
  });

  test("without kubectl, and says so", async () => {
    const folder = mkdtempSync(join(tmpdir(), "csimux-no-kubectl-"));
    const err: string[] = [];
    const host = {
      out: () => {},
      err: (each: string) => void err.push(each),
      stdin: async () => "",
      hostname: "desk",
      colour: false,
      pause: async () => {},
    };
    const code = await move("plan", ["a"], { toClass: "fast" }, { ...host, env: { PATH: folder } });
    rmSync(folder, { recursive: true });
    expect([code, err.join("")]).toEqual([
      1,
      expect.stringContaining("there is no such program (local); install it, or name it with --kubectl"),
    ]);
  });

  test("when kubectl fails, whose words are shown in their lines, without what its libraries log", async () => {
    const folder = mkdtempSync(join(tmpdir(), "csimux-failing-kubectl-"));
    const logged = 'E1127 09:10:11.000000   12 memcache.go:265] "Unhandled Error" err="connection refused"';
    const denied = 'Error from server (Forbidden): admission webhook "w" denied the request:\nrule a failed:\x1b[31m';
    const { stop } = await fakeKubectl(folder, [{ to: "get", err: `${logged}\n${denied}\nask the team`, code: 1 }]);
    try {
      const err: string[] = [];
      const host = { out: () => {}, err: (each: string) => void err.push(each), stdin: async () => "" };
      const rest = { hostname: "desk", colour: false, pause: async () => {}, env: { PATH: `${folder}:/usr/bin:/bin` } };
      const code = await move("plan", ["a"], { toClass: "fast", namespace: "shop" }, { ...host, ...rest });
      const [first = "", ...others] = err.join("").split("\n");
      expect([code, others]).toEqual([1, ["  rule a failed:\\u001b[31m", "  ask the team", ""]]);
      expect(first).toMatch(/^csimux: kubectl get .*\(Forbidden\): admission webhook "w" denied the request:$/);
    } finally {
      await stop();
      rmSync(folder, { recursive: true });
    }
  });
});

describe("csimux move deletes no claim", () => {
  test("that is not the one it has read", async () => {
    const { cluster, run, close, claim } = await moveWorld();
    try {
      await run("copy", toFast);
      // Everything up to the deletion, then a person gives the claim another volume.
      cluster.cutAfter = cluster.changes.length + 10;
      await run("switch", { yes: true });
      cluster.cutAfter = Number.POSITIVE_INFINITY;
      expect(text(claim(), "spec", "volumeName")).toBe("pvc-data-db-0");
      cluster.api.delete("PersistentVolumeClaim", "data-db-0", "shop", undefined);
      const [, other = {}] = claimAndVolume("data-db-0");
      const waiting = claim();
      if (waiting) {
        waiting["metadata"] = { ...(waiting["metadata"] as object), finalizers: [] };
        cluster.api.collect(waiting);
      }
      cluster.add({ ...other, spec: { volumeName: "another" } });
      const { length } = cluster.changes;
      const { code, err } = await run("switch", { yes: true });
      expect([code, err]).toEqual([1, expect.stringContaining("is for another volume")]);
      expect(cluster.changes.length).toBe(length);
      expect(text(claim(), "spec", "volumeName")).toBe("another");
    } finally {
      close();
    }
  });

  test("whose volume would go with it", async () => {
    const { cluster, run, close, claim } = await moveWorld();
    try {
      await run("copy", toFast);
      const old = cluster.api.find("PersistentVolume", "pvc-data-db-0");
      (old?.["spec"] as Record<string, unknown>)["persistentVolumeReclaimPolicy"] = "Delete";
      const { code, err } = await run("switch", { yes: true });
      expect([code, err]).toEqual([1, expect.stringContaining("has the reclaim policy Delete, not Retain")]);
      expect(text(claim(), "spec", "volumeName")).toBe("pvc-data-db-0");
      // What is stopped starts again, with the old volume.
      expect(await run("undo", { yes: true })).toMatchObject({ code: 0, err: "" });
      expect(text(cluster.api.find("Pod", "db-0", "shop"), "status", "phase")).toBe("Running");
    } finally {
      close();
    }
  });

  test("while a node has its volume staged", async () => {
    const { cluster, run, close } = await moveWorld();
    try {
      await run("copy", toFast);
      const volume = cluster.csimux.volumes.get("v:a/pvc-data-db-0");
      const staged = volume?.staged;
      if (staged) staged.delete = () => false;
      const asked: string[] = [];
      const clock = performance.now;
      // Time passes a minute with every question.
      performance.now = () => clock.call(performance) + 60_000 * asked.push("");
      try {
        const { code, err } = await run("switch", { yes: true });
        expect([code, err]).toEqual([
          1,
          expect.stringContaining("node w1 still has a volume staged; repeat the command"),
        ]);
      } finally {
        performance.now = clock;
      }
      expect(cluster.changes.filter(each => each.startsWith("delete"))).toEqual([]);
    } finally {
      close();
    }
  });
});

test("finish deletes no storage that another PersistentVolume has, too", async () => {
  const { cluster, run, close } = await moveWorld();
  try {
    for (const command of ["copy", "switch"] as const) await run(command, command === "copy" ? toFast : { yes: true });
    cluster.add(...claimAndVolume("again", { policy: "Retain", handle: "v:a/pvc-data-db-0" }));
    const { length } = cluster.changes;
    expect(await run("finish", { yes: true })).toMatchObject({
      code: 1,
      err: expect.stringContaining(
        "PersistentVolume pvc-again has the same storage as pvc-data-db-0; nothing is deleted",
      ),
    });
    expect(cluster.changes).toHaveLength(length);
    expect([...cluster.csimux.volumes.keys()]).toContain("v:a/pvc-data-db-0");
  } finally {
    close();
  }
});

test("all claims of a connection are meant, in every namespace, with each workload stopped by itself", async () => {
  const { cluster, run, close } = await moveWorld();
  try {
    cluster.csimux.add("v:a/pvc-alone");
    cluster.add(...claimAndVolume("alone", { namespace: "other" }), storageClass("unused", "c"));
    const flags = { from: "a", all: true as const };
    const here = (more: object) => ({ ...flags, ...more, namespace: undefined }) as object;
    expect(await run("copy", here(toFast), [])).toMatchObject({ code: 0, err: "" });
    const { code, out } = await run("switch", here({ yes: true }), []);
    expect(code).toBe(0);
    expect(out).toContain("other/alone: switched");
    expect(text(cluster.api.find("PersistentVolumeClaim", "alone", "other"), "spec", "storageClassName")).toBe("fast");
    expect(await run("finish", here({ yes: true }), [])).toMatchObject({ code: 0, err: "" });
    expect([...cluster.csimux.volumes.keys()].every(each => each.startsWith("v:b/"))).toBe(true);
  } finally {
    close();
  }
});
