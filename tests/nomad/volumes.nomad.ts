import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { inClient } from "../../scripts/nomad/machine.ts";
import { clientNames, onClient, store } from "../../scripts/nomad/place.ts";
import { stored, tidy, unmounted } from "./left.ts";
import {
  allocations,
  api,
  eventually,
  failing,
  inTask,
  nodeId,
  nomad,
  refusal,
  run,
  running,
  stop,
  withFile,
} from "./nomad.ts";
import { startCentral, stopCentral } from "./plugins.ts";
import { consumer, create, register, registered, removeVolumes, snapshots, volumeInfo, volumeText } from "./volumes.ts";

beforeAll(startCentral);
afterEach(() => tidy("csimux"));
afterAll(stopCentral);

describe("a volume", () => {
  test("is written, moved to the other client and back by two drains, and nothing stays mounted", async () => {
    await create({ id: "plain", connection: "anywhere", size: "64MiB" });
    expect((await volumeInfo("plain")).ExternalID).toBe("v:anywhere/plain");
    await run(consumer({ id: "use", volume: "plain", run: "date >> /data/log; sync" }));
    for (const moves of [1, 2]) {
      const [{ NodeName: from } = { NodeName: "" }] = await running("use");
      await eventually(
        "it has written",
        async () => (await inTask("use", "cat /data/log")).trim().split("\n").length === moves,
      );
      await nomad("node", "drain", "-enable", "-yes", "-ignore-system", "-deadline", "60s", await nodeId(from));
      await eventually("it has moved", async () => (await running("use"))[0]?.NodeName !== from);
      for (const client of clientNames) if (client === from) await unmounted(client);
      await nomad("node", "drain", "-disable", "-yes", await nodeId(from));
    }
    await eventually(
      "it has written a third time",
      async () => (await inTask("use", "cat /data/log")).trim().split("\n").length === 3,
    );
  });

  test("of one writer is withheld from a second job until the first has ended", async () => {
    await create({ id: "one", connection: "anywhere" });
    await run(consumer({ id: "holder", volume: "one", client: "n1", run: "echo first > /data/f" }));
    await running("holder");
    await run(consumer({ id: "waiting", volume: "one", client: "n2" }));
    await eventually("the second is blocked", async () =>
      (await api<readonly { readonly Status: string }[]>("/v1/job/waiting/evaluations"))?.some(
        ({ Status }) => Status === "blocked",
      ),
    );
    expect(await allocations("waiting")).toEqual([]);
    await stop("holder");
    await running("waiting");
    expect(await inTask("waiting", "cat /data/f")).toBe("first\n");
  });

  test("of many writers serves two tasks on each client", async () => {
    await create({ id: "many", connection: "anywhere" });
    await run(
      consumer({
        id: "use",
        volume: "many",
        access: "multi-node-multi-writer",
        count: 4,
        run: "echo $NOMAD_ALLOC_INDEX >> /data/log; sync",
      }),
    );
    const all = await running("use", 4);
    await eventually(
      "all have written",
      async () => (await inTask("use", "sort /data/log", all[0]?.ID)) === "0\n1\n2\n3\n",
    );
  });

  test("for each allocation has a name of its own", async () => {
    for (const index of [0, 1]) await create({ id: `data[${index}]`, connection: "anywhere" });
    await run(
      consumer({ id: "use", volume: "data", perAlloc: true, count: 2, run: "echo $NOMAD_ALLOC_INDEX > /data/f" }),
    );
    for (const { ID, Name } of await running("use", 2))
      expect(await inTask("use", "cat /data/f", ID)).toBe(`${/\[(\d)\]/.exec(Name)?.[1]}\n`);
    expect((await volumeInfo("data[1]")).ExternalID).toMatch(/^v:anywhere\/data-1--/);
  });

  test("is expanded in use by a new specification, and never shrunk", async () => {
    // Nomad expands a volume in use only if its specification has mount options.
    const options = "mount_options {\n}";
    const volume = { id: "grows", connection: "anywhere", more: options };
    await create({ ...volume, size: "64MiB" });
    await run(consumer({ id: "use", volume: "grows" }));
    await running("use");
    await create({ ...volume, size: "200MiB" });
    expect((await volumeInfo("grows")).Capacity).toBe(200 << 20);
    await register({ ...volume, size: "260MiB" });
    expect((await volumeInfo("grows")).Capacity).toBe(260 << 20);
    const smaller = volumeText({ ...volume, size: "64MiB", more: `${options}\ncapacity_max = "70MiB"` });
    expect(await withFile(smaller, file => refusal("volume", "create", file))).toContain("less than");
    expect((await volumeInfo("grows")).Capacity).toBe(260 << 20);
  });

  test("is snapshotted, restored and cloned, and its copies outlive it", async () => {
    await create({ id: "source", connection: "anywhere", size: "64MiB" });
    await run(consumer({ id: "use", volume: "source", run: "echo hello > /data/f; sync" }));
    await eventually("it has written", async () => (await inTask("use", "cat /data/f")) === "hello\n");
    await nomad("volume", "snapshot", "create", "source", "snap1");
    const [snapshot] = await snapshots("csimux");
    expect(snapshot?.ID).toMatch(/^s:anywhere\//);
    expect(snapshot?.ExternalSourceVolumeID).toBe("v:anywhere/source");
    await inTask("use", "echo later > /data/f; sync");
    const copy = { connection: "anywhere", size: "64MiB" };
    await create({ ...copy, id: "restored", more: `snapshot_id = "${snapshot?.ID}"` });
    await create({ ...copy, id: "cloned", more: 'clone_id = "v:anywhere/source"' });
    await stop("use");
    await nomad("volume", "snapshot", "delete", "csimux", snapshot?.ID ?? "");
    expect(await snapshots("csimux")).toEqual([]);
    await removeVolumes("source");
    for (const [id, text] of [
      ["restored", "hello\n"],
      ["cloned", "later\n"],
    ] as const) {
      expect(await readFile(join(store, "anywhere/v", id, "f"), "utf8")).toBe(text);
      await run(consumer({ id, volume: id }));
      await eventually(`${id} reads it`, async () => (await inTask(id, "cat /data/f")) === text);
    }
  });

  test("is registered with its context and deregistered without a loss", async () => {
    await create({ id: "known", connection: "anywhere" });
    const more = await registered("known");
    await nomad("volume", "deregister", "known");
    expect(stored(join(store, "anywhere"))).toContain("v/known");
    await register({ id: "again", more });
    await run(consumer({ id: "use", volume: "again", run: "echo found > /data/f" }));
    await eventually("it has written", async () => stored(join(store, "anywhere")).includes("v/known/f"));
  });

  test("that is registered with a wrong context fails with the job, and the message says why", async () => {
    await create({ id: "known", connection: "anywhere" });
    await register({ id: "wrong", more: 'external_id = "v:anywhere/known"\ncontext {\n  path = "/elsewhere"\n}' });
    await run(consumer({ id: "use", volume: "wrong" }));
    expect(await failing("use")).toContain("node_attach_driver");
    await stop("use");
    await nomad("volume", "deregister", "wrong");
  });

  test("takes secrets and mount options, whose values are in no log", async () => {
    const more =
      'secrets {\n  "node-db.node.session.auth.password" = "hush-hush"\n}\nmount_options {\n  mount_flags = ["noatime"]\n}';
    await create({ id: "secret", connection: "anywhere", more });
    await run(consumer({ id: "use", volume: "secret" }));
    expect(await inTask("use", "grep ' /data ' /proc/mounts")).toContain("noatime");
    for (const client of clientNames) {
      const logs = `${onClient.data}/alloc`;
      expect((await inClient(client, ["grep", "-rl", "--include=csimux.*", "hush-hush", logs])).stdout).toBe("");
    }
  });
});
