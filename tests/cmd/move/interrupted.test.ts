import { describe, expect, test } from "bun:test";
import type { MoveCommand, MoveFlags } from "../../../cmd/cluster/move/options.ts";
import { text } from "../../fakes/cluster/objects.ts";
import { drawn, everything, seed } from "../../sample.ts";
import { moveWorld, toFast } from "./world.ts";

// A command keeps nothing for the next one but what is in the cluster and on the storages. Its calls between two changes only read, so that a
// cut after each change covers every place where it can end.

type World = Awaited<ReturnType<typeof moveWorld>>;

/** Loses power after `changes` further changes, and works again. Returns whether the command had ended before. */
async function cut({ cluster, run }: World, changes: number, command: MoveCommand, flags: MoveFlags): Promise<boolean> {
  cluster.cutAfter = cluster.changes.length + changes;
  const { code } = await run(command, flags);
  cluster.cutAfter = Number.POSITIVE_INFINITY;
  return code === 0;
}

/** The claim is bound to a volume on the connection, its pod runs, and no line is lost that was written before. */
function isWell({ cluster, claim, volumeOf, lines }: World, connection: string, written: readonly string[]): void {
  expect(text(claim(), "status", "phase")).toBe("Bound");
  expect(text(volumeOf(), "spec", "csi", "volumeHandle")).toStartWith(`v:${connection}/`);
  expect(text(cluster.api.find("Pod", "db-0", "shop"), "status", "phase")).toBe("Running");
  expect(cluster.csimux.refusedWrites).toEqual([]);
  expect(lines().slice(0, written.length)).toEqual([...written]);
  cluster.write();
  expect(lines().length).toBeGreaterThan(written.length);
}

const before = ({ cluster }: World): readonly string[] =>
  cluster.csimux.volumes.get("v:a/pvc-data-db-0")?.lines.slice() ?? [];

const places = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index + 1);

/** Every other place, which the seed draws. */
const half = (count: number): readonly number[] => drawn(places(count), Math.ceil(count / 2));

/** Each command makes so many changes; the last place is after its end. */
const lasts = { copy: 6, switch: 14, undo: 7, finish: 3 } as const;

async function world(...done: readonly [MoveCommand, MoveFlags][]): Promise<World> {
  const made = await moveWorld();
  for (const [command, flags] of done) expect(await made.run(command, flags)).toMatchObject({ code: 0, err: "" });
  return made;
}

const losing: MoveFlags = { yes: true, loseWritesSinceSwitch: true };

describe("after a power failure, the same command continues", () => {
  test.each(half(lasts.copy))("copy, cut after change %i", async place => {
    const here = await world();
    try {
      const ended = await cut(here, place, "copy", toFast);
      expect(ended).toBe(place > lasts.copy);
      expect(await here.run("copy", toFast)).toMatchObject({ code: 0, err: "" });
      expect([...here.cluster.csimux.copies.keys()]).toHaveLength(1);
      isWell(here, "a", []);
    } finally {
      here.close();
    }
  });

  test.each(half(lasts.switch))("switch, cut after change %i", async place => {
    const here = await world(["copy", toFast]);
    try {
      await cut(here, place, "switch", { yes: true });
      expect(await here.run("switch", { yes: true })).toMatchObject({ code: 0, err: "" });
      isWell(here, "b", before(here));
      expect(here.cluster.api.find("PersistentVolume", "pvc-data-db-0")).toBeDefined();
    } finally {
      here.close();
    }
  });

  test.each(half(lasts.undo))("undo of a switch, cut after change %i", async place => {
    const here = await world(["copy", toFast], ["switch", { yes: true }]);
    try {
      const written = before(here);
      await cut(here, place, "undo", losing);
      expect(await here.run("undo", losing)).toMatchObject({ code: 0, err: "" });
      isWell(here, "a", written);
      expect(here.cluster.csimux.volumes.size).toBe(2);
    } finally {
      here.close();
    }
  });

  test.each(half(lasts.finish))("finish, cut after change %i", async place => {
    const here = await world(["copy", toFast], ["switch", { yes: true }]);
    try {
      await cut(here, place, "finish", { yes: true });
      expect(await here.run("finish", { yes: true })).toMatchObject({ code: 0, err: "" });
      isWell(here, "b", []);
      expect([...here.cluster.csimux.volumes.keys()].filter(each => each.startsWith("v:a/"))).toEqual([]);
    } finally {
      here.close();
    }
  });
});

describe("after a power failure during the switch, undo gives the old volume back", () => {
  const chosen = places(lasts.switch).filter(place => everything || place % 4 === seed % 4);
  test.each(chosen)("cut after change %i", async place => {
    const here = await world(["copy", toFast]);
    try {
      await cut(here, place, "switch", { yes: true });
      const written = before(here);
      expect(await here.run("undo", losing)).toMatchObject({ code: 0, err: "" });
      isWell(here, "a", written);
      expect(await here.run("finish", { yes: true })).toMatchObject({ code: 0, err: "" });
      expect([...here.cluster.csimux.volumes.keys()]).toEqual(["v:a/pvc-data-db-0"]);
      const old = here.cluster.api.find("PersistentVolume", "pvc-data-db-0");
      expect(text(old, "spec", "persistentVolumeReclaimPolicy")).toBe("Delete");
    } finally {
      here.close();
    }
  });
});

test("after the copy became a volume, whose record has gone, both switch and undo find it", async () => {
  for (const command of ["switch", "undo"] as const) {
    const here = await world(["copy", toFast]);
    try {
      here.cluster.csimux.options = { forgets: true };
      await cut(here, 9, "switch", { yes: true });
      expect([...here.cluster.csimux.volumes.keys()].at(-1)).toStartWith("v:b/");
      const written = before(here);
      expect(await here.run(command, losing)).toMatchObject({ code: 0, err: "" });
      isWell(here, command === "switch" ? "b" : "a", written);
    } finally {
      here.close();
    }
  }
});

test.each(places(2))("what pods write after their copy has become a volume is not left behind (%i)", async place => {
  const here = await world(["copy", toFast]);
  try {
    const { cluster } = here;
    cluster.csimux.options = { cannotFreeze: true };
    await cut(here, 8 + place, "switch", { yes: true });
    expect([...cluster.csimux.volumes.keys()].at(-1)).toStartWith("v:b/");
    cluster.answer({ argv: ["scale", "statefulset/db", "-n", "shop", "--replicas=1"], stdin: "" });
    cluster.write();
    expect(await here.run("switch", { yes: true })).toMatchObject({
      code: 1,
      err: expect.stringContaining("pods use claim shop/data-db-0 again since its copy became the volume v:b/"),
    });
    isWell(here, "a", before(here));
    expect(await here.run("undo", { yes: true })).toMatchObject({ code: 0, err: "" });
    isWell(here, "a", before(here));
  } finally {
    here.close();
  }
});

test("a claim is not replaced if its pods came back after the last pass", async () => {
  const here = await world(["copy", toFast]);
  try {
    const { cluster } = here;
    const landed = () =>
      void cluster.answer({ argv: ["scale", "statefulset/db", "-n", "shop", "--replicas=1"], stdin: "" });
    cluster.csimux.options = { cannotFreeze: true, landed };
    expect(await here.run("switch", { yes: true })).toMatchObject({
      code: 1,
      err: expect.stringContaining("pods still use the claims: db-0: their writes would not be in the new volume"),
    });
    isWell(here, "a", before(here));
    expect(await here.run("undo", { yes: true })).toMatchObject({ code: 0, err: "" });
    isWell(here, "a", before(here));
  } finally {
    here.close();
  }
});

test("while the new connection does not say how far its copies are, nothing is landed, and nothing written is lost", async () => {
  const here = await world(["copy", toFast]);
  try {
    here.cluster.write();
    here.cluster.csimux.options = { silent: "b" };
    for (const command of ["switch", "undo"] as const) {
      const { code, err } = await here.run(command, { yes: true });
      expect([command, code, err]).toEqual([
        command,
        1,
        expect.stringContaining("connection b does not list its copies, so the state of the copy"),
      ]);
    }
    expect([...here.cluster.csimux.volumes.keys()]).toEqual(["v:a/pvc-data-db-0"]);
    here.cluster.csimux.options = {};
    expect(await here.run("switch", { yes: true })).toMatchObject({ code: 0, err: "" });
    isWell(here, "b", before(here));
  } finally {
    here.close();
  }
});

test.each([[["copy", "switch", "finish"] as const], [["copy", "switch", "undo"] as const]])(
  "%p make as many changes as above",
  async commands => {
    const here = await world();
    try {
      for (const command of commands) {
        const from = here.cluster.changes.length;
        const flags = command === "copy" ? toFast : losing;
        expect(await here.run(command, flags)).toMatchObject({ code: 0 });
        expect([command, here.cluster.changes.length - from]).toEqual([command, lasts[command]]);
      }
    } finally {
      here.close();
    }
  },
);

/** Scales the workload by hand. */
const scaled = ({ cluster }: World, replicas: number) =>
  cluster.answer({ argv: ["scale", "statefulset/db", "-n", "shop", `--replicas=${replicas}`], stdin: "" });

test("a claim that the switch deletes while a pod starts is made again by undo, and keeps its volume after finish", async () => {
  const here = await world(["copy", toFast]);
  try {
    const { cluster } = here;
    cluster.csimux.options = { cannotFreeze: true };
    await cut(here, 10, "switch", { yes: true });
    // The last request of the command arrives after a pod has started.
    scaled(here, 1);
    cluster.api.delete("PersistentVolumeClaim", "data-db-0", "shop", undefined);
    cluster.write();
    const said = "claim shop/data-db-0 is being deleted";
    expect(await here.run("switch", { yes: true })).toMatchObject({ code: 1, err: expect.stringContaining(said) });
    const written = before(here);
    for (const command of ["undo", "finish"] as const)
      expect(await here.run(command, { yes: true })).toMatchObject({ code: 0, err: "" });
    isWell(here, "a", written);
    scaled(here, 0);
    scaled(here, 1);
    isWell(here, "a", written);
    expect([...cluster.csimux.volumes.keys()]).toEqual(["v:a/pvc-data-db-0"]);
  } finally {
    here.close();
  }
});

test("what a pod writes that starts while the switch deletes its claim is not left behind", async () => {
  const here = await world(["copy", toFast]);
  try {
    const { cluster } = here;
    cluster.csimux.options = { cannotFreeze: true };
    const { api } = cluster;
    const remove = api.delete.bind(api);
    api.delete = (kind, ...given) => {
      if (kind === "PersistentVolumeClaim") scaled(here, 1);
      remove(kind, ...given);
    };
    const lost = "their writes would not be in the new volume";
    expect(await here.run("switch", { yes: true })).toMatchObject({ code: 1, err: expect.stringContaining(lost) });
    scaled(here, 0);
    expect(here.claim()).toBeUndefined();
    const said = "run csimux move undo and finish";
    expect(await here.run("switch", { yes: true })).toMatchObject({ code: 1, err: expect.stringContaining(said) });
    const written = before(here);
    expect(await here.run("undo", { yes: true })).toMatchObject({ code: 0, err: "" });
    isWell(here, "a", written);
  } finally {
    here.close();
  }
});

test("finish deletes nothing while the claim is being deleted", async () => {
  for (const done of ["switch", "undo"] as const) {
    const here = await world(["copy", toFast], ["switch", { yes: true }]);
    try {
      const { cluster } = here;
      if (done === "undo") await here.run("undo", losing);
      cluster.api.delete("PersistentVolumeClaim", "data-db-0", "shop", undefined);
      expect(await here.run("finish", { yes: true })).toMatchObject({
        code: 1,
        err: expect.stringContaining("claim shop/data-db-0 is being deleted; nothing is deleted"),
      });
      scaled(here, 0);
      expect(cluster.csimux.volumes.size).toBe(2);
    } finally {
      here.close();
    }
  }
});
