import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { kill } from "../../scripts/cluster/processes.ts";
import { clientPid, clientsReady, inClient } from "../../scripts/nomad/machine.ts";
import { type Client, clientNames, executable, folderOf, onClient } from "../../scripts/nomad/place.ts";
import { mounted, tidy, unmounted } from "./left.ts";
import { type Allocation, allocations, eventually, inTask, nomad, run, running, stop } from "./nomad.ts";
import { centralNode, freeController, healthy, recordsOf, startCentral, stopCentral } from "./plugins.ts";
import { answers, processesOf } from "./processes.ts";
import { consumer, create } from "./volumes.ts";

beforeAll(startCentral);
afterEach(async () => {
  await healthy("csimux", 1, clientNames.length);
  await tidy("csimux");
});
afterAll(stopCentral);

const counting = "while :; do date +%s >> /data/log; sleep 1; done & :";

/** Waits until a task continues to write to its volume. */
async function continues(job: string): Promise<void> {
  // A client that was just started cannot run commands in its tasks yet.
  const lines = async () => Number((await inTask(job, "wc -l < /data/log").catch(() => "")).trim());
  const before = await eventually(`${job} has written`, lines);
  await eventually(`${job} continues to write`, async () => (await lines()) > before);
}

/** csimux's node plugin on n1. */
const nodePlugin = async () =>
  (await processesOf("n1")).filter(
    ({ command }) => command.startsWith(`${executable} serve`) && command.includes("--mode node"),
  );

/** Kills csimux's node plugin on n1, and waits until another process answers on its socket. */
async function killNodePlugin(): Promise<void> {
  const plugin = await nodePlugin();
  expect(kill(plugin)).toBe(1);
  const [allocation] = (await running("csimux-node", 2)).filter(({ NodeName }) => NodeName === "n1");
  const socket = `${onClient.data}/client/csi/plugins/${allocation?.ID}/csi.sock`;
  await eventually("the node plugin answers again", async () =>
    answers(`/proc/${await clientPid("n1")}/root${socket}`),
  );
}

/** Whether an allocation has ended. */
const over = ({ ClientStatus }: Allocation): boolean => ClientStatus === "complete" || ClientStatus === "failed";

/** Kills Nomad on n1, which is started again. */
async function killAgent(): Promise<void> {
  const agents = (await processesOf("n1")).filter(({ command }) => / agent -config .*client\.hcl/.test(command));
  expect(kill(agents)).toBe(1);
  await clientsReady("n1");
}

/** Starts a job that writes to a volume, again if it fails: a plugin that was just started may be unknown to Nomad. */
async function use(job: string, volume: string, client: Client): Promise<void> {
  const text = consumer({ id: job, volume, client, access: "multi-node-multi-writer", run: counting });
  await run(text);
  await eventually(`${job} writes`, async () => {
    try {
      return Number((await inTask(job, "wc -l < /data/log; true")).trim()) > 0;
    } catch (error) {
      if (!String(error).includes(`${job} failed on`)) throw error;
      await stop(job);
      await run(text);
      return false;
    }
  });
}

describe("a running task keeps its volume, and further tasks get theirs", () => {
  test("when the node plugin is restarted by Nomad", async () => {
    await create({ id: "a", connection: "anywhere" });
    await use("one", "a", "n1");
    const [plugin] = (await running("csimux-node", 2)).filter(({ NodeName }) => NodeName === "n1");
    await nomad("alloc", "restart", plugin?.ID ?? "");
    await continues("one");
    await use("two", "a", "n1");
    await stop("one", "two");
    await unmounted("n1");
  });

  test("when the node plugin is killed", async () => {
    await create({ id: "a", connection: "anywhere" });
    await use("one", "a", "n1");
    await killNodePlugin();
    await use("two", "a", "n1");
    await continues("one");
    await stop("one", "two");
    await unmounted("n1");
  });

  test("when the records of the node plugin are lost with it", async () => {
    await create({ id: "a", connection: "anywhere" });
    await use("one", "a", "n1");
    expect(
      (
        await inClient("n1", [
          "sh",
          "-c",
          `ls ${recordsOf("csimux-node")}/volumes/* && rm -r ${recordsOf("csimux-node")}`,
        ])
      ).code,
    ).toBe(0);
    await killNodePlugin();
    await use("two", "a", "n1");
    await stop("two");
    await continues("one");
    await stop("one");
    await unmounted("n1");
  });

  test("when Nomad's client is killed", async () => {
    await create({ id: "a", connection: "anywhere" });
    await use("one", "a", "n1");
    await killAgent();
    await continues("one");
    await healthy("csimux", 1, 2);
    await use("two", "a", "n1");
    await stop("one", "two");
    await unmounted("n1");
  });
});

describe("the volume is unmounted later", () => {
  test("when its task ends while the node plugin is gone", async () => {
    await create({ id: "a", connection: "anywhere" });
    await use("one", "a", "n1");
    await stop("csimux-node");
    await stop("one");
    expect(await mounted("n1")).toHaveLength(2);
    await run(centralNode);
    await healthy("csimux", 1, 2);
    await unmounted("n1");
  });

  test("when a person has removed the mount of an allocation that Nomad has forgotten", async () => {
    await create({ id: "a", connection: "anywhere" });
    await use("forgotten", "a", "n1");
    await stop("csimux-node");
    await nomad("job", "stop", "-detach", "-purge", "forgotten");
    await eventually("its task has ended", async () => (await allocations("forgotten")).every(over));
    await killAgent();
    await run(centralNode);
    await healthy("csimux", 1, 2);
    await use("next", "a", "n1");
    await stop("next");
    // Both were seen with Nomad 1.11.3: its client unmounts the volume after its restart, or forgets it.
    let same = 0;
    const left = await eventually("only the mounts of the forgotten one are left, or none", async () => {
      const points = await mounted("n1");
      same = points.length === 0 || points.length === 2 ? same + 1 : 0;
      return same > 20 ? points : undefined;
    });
    const target = left.find(point => point.includes("/per-alloc/"));
    if (target !== undefined)
      expect((await inClient("n1", ["umount", `${onClient.data}/client/csi/${target}`])).code).toBe(0);
    await use("last", "a", "n1");
    await stop("last");
    await unmounted("n1");
  });
});

test("a job of a client that died continues on the other with the same data, and so does the controller", async () => {
  // Nomad starts no job with a volume while the plugin has no healthy controller.
  await freeController();
  await create({ id: "a", connection: "anywhere" });
  await run(consumer({ id: "one", volume: "a", run: counting, replaced: true }));
  await running("one");
  await continues("one");
  const dead = (await running("one"))[0]?.NodeName === "n1" ? "n1" : "n2";
  const other = dead === "n1" ? "n2" : "n1";
  await writeFile(join(folderOf(dead), "off"), "");
  try {
    kill([{ pid: (await clientPid(dead)) ?? 0, command: "", cgroup: "" }]);
    await eventually(
      "it runs on the other client",
      async () => (await allocations("one")).some(each => each.NodeName === other && each.ClientStatus === "running"),
      240_000,
    );
    await continues("one");
  } finally {
    await rm(join(folderOf(dead), "off"));
  }
  await clientsReady(...clientNames);
  await healthy("csimux", 1, 2);
  await unmounted(dead);
});
