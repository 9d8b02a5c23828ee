import { expect, test } from "bun:test";
import { text } from "../../fakes/cluster/objects.ts";
import { moveWorld, toFast } from "./world.ts";

// Pods that start after the last pass, write and end leave nothing but the version of their workload. The storage cannot forbid their writes.

const said = "statefulset/db was changed since the last pass of claim shop/data-db-0";

/** A copied claim, and pods that start by hand, write and end. */
async function copied() {
  const here = await moveWorld();
  const { cluster, run } = here;
  await run("copy", toFast);
  const scale = (replicas: number) =>
    cluster.answer({ argv: ["scale", "statefulset/db", "-n", "shop", `--replicas=${replicas}`], stdin: "" });
  const burst = () => {
    scale(1);
    cluster.write();
    scale(0);
  };
  return { ...here, burst };
}

/** Every switch is refused, and undo gives back what was written. */
async function isKept(
  { cluster, run, volumeOf, lines }: Awaited<ReturnType<typeof copied>>,
  why = said,
): Promise<void> {
  const written = [...(cluster.csimux.volumes.get("v:a/pvc-data-db-0")?.lines ?? [])];
  expect(await run("switch", { yes: true })).toMatchObject({ code: 1, err: expect.stringContaining(why) });
  expect(await run("undo", { yes: true })).toMatchObject({ code: 0, err: "" });
  expect(text(volumeOf(), "spec", "csi", "volumeHandle")).toBe("v:a/pvc-data-db-0");
  expect(lines().slice(0, written.length)).toEqual(written);
}

test.each([1, 2])("what they write before an interrupted switch is repeated is not left behind (%i)", async place => {
  const here = await copied();
  try {
    const { cluster, run, burst } = here;
    cluster.csimux.options = { cannotFreeze: true };
    cluster.cutAfter = cluster.changes.length + 8 + place;
    await run("switch", { yes: true });
    cluster.cutAfter = Number.POSITIVE_INFINITY;
    expect([...cluster.csimux.volumes.keys()].at(-1)).toStartWith("v:b/");
    burst();
    await isKept(here);
  } finally {
    here.close();
  }
});

test("what they write during the switch is not left behind", async () => {
  const here = await copied();
  try {
    const { cluster, run, burst } = here;
    cluster.csimux.options = { cannotFreeze: true, landed: burst };
    expect(await run("switch", { yes: true })).toMatchObject({ code: 1, err: expect.stringContaining(said) });
    await isKept(here);
  } finally {
    here.close();
  }
});

test("what a pod without an owner writes during the switch is not left behind, although nothing is left of it later", async () => {
  const here = await copied();
  try {
    const { cluster, run } = here;
    const volume = cluster.csimux.volumes.get("v:a/pvc-data-db-0");
    const { staged = new Set<string>() } = volume ?? {};
    const landed = () => {
      const volumes = [{ persistentVolumeClaim: { claimName: "data-db-0" } }];
      cluster.add({ kind: "Pod", metadata: { namespace: "shop", name: "shell" }, spec: { volumes } });
      cluster.write();
      // The node takes a moment to unmount.
      staged.delete = () => false;
      cluster.api.delete("Pod", "shell", "shop", undefined);
    };
    cluster.csimux.options = { cannotFreeze: true, landed };
    const held = "node w1 still has a volume staged: their writes would not be in the new volume";
    expect(await run("switch", { yes: true })).toMatchObject({ code: 1, err: expect.stringContaining(held) });
    staged.delete = Set.prototype.delete;
    await isKept(here, "pods have used the old one since the last pass");
  } finally {
    here.close();
  }
});
