import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { until } from "../../scripts/cluster/first-process.ts";
import { kill } from "../../scripts/cluster/processes.ts";
import { clientPid, clientsReady, inClient } from "../../scripts/nomad/machine.ts";
import { clientNames, executable, folderOf } from "../../scripts/nomad/place.ts";
import { mounted, tidy, unmounted } from "./left.ts";
import { allocations, eventually, inTask, nomad, run, running, stop } from "./nomad.ts";
import { centralNode, healthy, recordsOf, startCentral } from "./plugins.ts";
import { processesOf } from "./processes.ts";
import { consumer, create } from "./volumes.ts";

beforeAll(startCentral);
afterEach(() => tidy("csimux"));
afterAll(() => stop("csimux-controller", "csimux-node"));

const counting = "while :; do date +%s >> /data/log; sleep 1; done & :";

/** The task of n1 continues to write to its volume. */
async function continues(job: string): Promise<void> {
  const lines = async () => (await inTask(job, "wc -l < /data/log")).trim();
  const before = Number(await lines());
  await eventually(`${job} continues to write`, async () => Number(await lines()) > before);
}

/** Kills csimux's node plugin on n1. */
async function killNodePlugin(): Promise<void> {
  const all = await processesOf("n1");
  expect(
    kill(all.filter(({ command }) => command.startsWith(`${executable} serve`) && command.includes("--mode node"))),
  ).toBe(1);
}

async function use(job: string, volume: string, client?: (typeof clientNames)[number]): Promise<void> {
  await run(consumer({ id: job, volume, access: "multi-node-multi-writer", run: counting, ...(client && { client }) }));
  await running(job);
  await eventually(`${job} writes`, async () => Number((await inTask(job, "wc -l < /data/log; true")).trim()) > 0);
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
      (await inClient("n1", ["sh", "-c", `ls ${recordsOf("csimux-node")}/*.json && rm -r ${recordsOf("csimux-node")}`]))
        .code,
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
    const agents = (await processesOf("n1")).filter(({ command }) => / agent -config .*client\.hcl/.test(command));
    expect(kill(agents)).toBe(1);
    await clientsReady("n1");
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

  test("when a new job uses it after Nomad has forgotten the claim of an old one", async () => {
    await create({ id: "a", connection: "anywhere" });
    await use("forgotten", "a", "n1");
    await stop("csimux-node");
    await nomad("job", "stop", "-detach", "-purge", "forgotten");
    await writeFile(join(folderOf("n1"), "off"), "");
    kill([{ pid: (await clientPid("n1")) ?? 0, command: "", cgroup: "" }]);
    await until("n1 is off", 30_000, async () => (await clientPid("n1")) === undefined);
    await rm(join(folderOf("n1"), "off"));
    await clientsReady("n1");
    await run(centralNode);
    await healthy("csimux", 1, 2);
    await use("next", "a", "n1");
    await stop("next");
    await unmounted("n1");
  });
});

test("a job of a client that died continues on the other with the same data", async () => {
  await create({ id: "a", connection: "anywhere" });
  await use("one", "a");
  const dead = (await running("one"))[0]?.NodeName === "n1" ? "n1" : "n2";
  const other = dead === "n1" ? "n2" : "n1";
  await writeFile(join(folderOf(dead), "off"), "");
  try {
    kill([{ pid: (await clientPid(dead)) ?? 0, command: "", cgroup: "" }]);
    await eventually("it runs on the other client", async () =>
      (await allocations("one")).some(each => each.NodeName === other && each.ClientStatus === "running"),
    );
    await continues("one");
  } finally {
    await rm(join(folderOf(dead), "off"));
  }
  await clientsReady(...clientNames);
  await healthy("csimux", 1, 2);
  await unmounted(dead);
});
