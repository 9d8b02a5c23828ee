import { expect, test } from "bun:test";
import { writeLine } from "../../../lib/copies/protocol.ts";
import { text, valueAt } from "../../fakes/cluster/objects.ts";
import { moveWorld, toFast } from "./world.ts";

// What others do between two steps of a move.

type World = Awaited<ReturnType<typeof moveWorld>>;

async function meanwhile(replicas: number, work: (world: World) => Promise<void>): Promise<void> {
  const here = await moveWorld({ replicas });
  try {
    expect(await here.run("copy", toFast)).toMatchObject({ code: 0, err: "" });
    await work(here);
  } finally {
    here.close();
  }
}

test("a pass that another client begins before the pods are stopped is not the last one", () =>
  meanwhile(1, async ({ cluster, run, lines }) => {
    const { csimux } = cluster;
    const answer = csimux.answer.bind(csimux);
    let written: readonly string[] = [];
    csimux.answer = (line, ahead) => {
      const answered = answer(line, ahead);
      const [copy] = csimux.copies.values();
      if (written.length > 0 || !copy || !line.includes('"pass"') || answered.code !== 0) return answered;
      copy.running = [...lines()];
      cluster.write();
      written = [...lines()];
      return answered;
    };
    expect(await run("switch", { yes: true })).toMatchObject({ code: 0, err: "" });
    expect(written.length).toBeGreaterThan(0);
    expect(lines().slice(0, written.length)).toEqual([...written]);
  }));

test("a new volume whose policy a person has set to Delete stays after undo", () =>
  meanwhile(1, async ({ cluster, run, volumeOf }) => {
    expect(await run("switch", { yes: true })).toMatchObject({ code: 0 });
    const name = text(volumeOf(), "metadata", "name");
    cluster.api.patch("PersistentVolume", name, "", { spec: { persistentVolumeReclaimPolicy: "Delete" } });
    expect(await run("undo", { yes: true, loseWritesSinceSwitch: true })).toMatchObject({ code: 0, err: "" });
    expect(cluster.csimux.volumes.size).toBe(2);
  }));

test("a workload that a person has started with another number of pods keeps that number", () =>
  meanwhile(2, async ({ cluster, run }) => {
    const scale = (replicas: number) =>
      cluster.answer({ argv: ["scale", "statefulset/db", "-n", "shop", `--replicas=${replicas}`], stdin: "" });
    const replicas = () => valueAt(cluster.api.find("StatefulSet", "db", "shop"), "spec", "replicas");
    const { csimux } = cluster;
    const answer = csimux.answer.bind(csimux);
    const failed = { kind: "failed", code: "unavailable", message: "no route to host" } as const;
    csimux.answer = (line, ahead) =>
      line.includes('"freeze"') ? { out: `${writeLine(failed)}\n`, code: 1 } : answer(line, ahead);
    expect(await run("switch", { yes: true })).toMatchObject({ code: 1 });
    csimux.answer = answer;
    expect(replicas()).toBe(0);
    scale(1);
    expect(await run("undo", { yes: true })).toMatchObject({ code: 0, err: "" });
    expect(replicas()).toBe(1);
  }));
