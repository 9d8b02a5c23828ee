import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { applyCentral, byNode, dataOutside, deployCentral, drivers, folderConnection, undeploy } from "./deploy.ts";
import {
  apply,
  bound,
  eventually,
  find,
  get,
  inPod,
  kube,
  list,
  ready,
  remove,
  removeSoon,
  running,
  warnings,
} from "./kube.ts";
import { claim, pod, snapshot, storageClass } from "./objects.ts";
import { tidy } from "./scenes/left.ts";
import { ask } from "./scenes/life.ts";

const good = byNode.connections;
const { fast = "", archive = "" } = good;
const change = (connections: Readonly<Record<string, string>>): Promise<void> =>
  applyCentral({ ...byNode, connections });

beforeAll(async () => {
  await deployCentral(byNode);
  const now = { volumeBindingMode: "Immediate" };
  await apply(
    ...["fast", "archive", "late"].map(name => storageClass(name, drivers.central, name, now)),
    storageClass("group", drivers.central, "both", now),
  );
});
afterEach(async () => {
  await change(good);
  await tidy();
});
afterAll(async () => {
  await kube("delete", "storageclass", "fast", "archive", "late", "group");
  await undeploy("cluster");
});

/** Waits for a matching warning about an object. */
const told = (name: string, what: RegExp): Promise<string> =>
  eventually(
    `a warning about ${name}: ${what}`,
    240_000,
    async () => (await warnings(name)).find(text => what.test(text)),
    name,
  );

describe("a connection whose file", () => {
  test("arrives after its class serves the waiting claims within two minutes", async () => {
    await apply(claim("a", "late"));
    await told("a", /late/);
    await change({ ...good, late: folderConnection("late") });
    await bound("a");
    // While the connection has a file: without one, csimux deletes none of its volumes.
    await tidy();
  });

  test("is removed while it is used keeps its pods, refuses new volumes with a reason, and works again when the file is back", async () => {
    await apply(claim("a", "archive"), pod("one", "a", { run: "echo x > /data/f; sync" }));
    await running("one");
    await apply(snapshot("s", "a", "csimux"));
    await ready("s");
    await change({ fast });
    await apply(claim("new", "archive"));
    // When a new claim is refused, the pods no longer have the file; earlier claims are retried.
    await eventually("a new claim is refused", 240_000, async () => {
      if ((await warnings("new")).some(text => text.includes("archive"))) return true;
      if ((await get("pvc", "new")).status.phase !== "Bound") return false;
      await remove("pvc", "new");
      await apply(claim("new", "archive"));
      return false;
    });
    await remove("pod", "one");
    await apply(pod("two", "a"), claim("other", "fast"));
    await running("two");
    expect(await inPod("two", "cat /data/f")).toBe("x\n");
    await bound("other");
    await ask("a", "128Mi");
    await removeSoon("volumesnapshot", "s");
    await told("a", /archive/);
    await change(good);
    await bound("new");
    await eventually("the snapshot is gone", 240_000, async () => (await find("volumesnapshot", "s")) === undefined);
    await eventually(
      "the claim has grown",
      300_000,
      async () => (await get("pvc", "a")).status.capacity.storage === "128Mi",
      "a",
    );
  });

  test("becomes invalid is served by its last valid version", async () => {
    await apply(claim("a", "archive"));
    await bound("a");
    await change({ fast, archive: "driver: [local-hostpath\n  what is this\n" });
    await eventually("csimux has seen it", 240_000, async () => {
      const log = await kube(
        "-n",
        "storage",
        "logs",
        "-l",
        "app.kubernetes.io/component=controller",
        "-c",
        "csimux",
        "--tail=100",
      );
      return /archive\.yaml/.test(log);
    });
    await apply(claim("b", "archive"));
    await bound("b");
  });

  test("is suspended gets no new volume, its group skips it, and its volumes can still be deleted", async () => {
    await apply(claim("a", "archive"));
    await bound("a");
    await change({ fast, archive: `${archive}suspended: true\n` });
    await eventually("a claim is refused", 240_000, async () => {
      await apply(claim("b", "archive"));
      if ((await warnings("b")).some(text => text.includes("suspended"))) return true;
      if ((await get("pvc", "b")).status.phase === "Bound") await remove("pvc", "b");
      return false;
    });
    await apply(...["g1", "g2", "g3"].map(name => claim(name, "group")));
    await bound("g1", "g2", "g3");
    const grouped = (await list("pv")).filter(({ spec }) => spec.claimRef.name.startsWith("g"));
    expect(grouped.map(({ spec }) => spec.csi.volumeHandle.split("/")[0])).toEqual(["v:fast", "v:fast", "v:fast"]);
    await remove("pvc", "a");
  });
});

test("a storage system that is down is not recreated: its claims wait, others do not", async () => {
  const folder = join(dataOutside, "archive");
  await rename(folder, `${folder}-away`);
  try {
    await apply(claim("a", "archive"), claim("b", "fast"));
    await bound("b");
    await told("a", /archive/);
    expect((await get("pvc", "a")).status.phase).toBe("Pending");
  } finally {
    await rename(`${folder}-away`, folder);
  }
  await bound("a");
});
