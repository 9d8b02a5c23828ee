import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { cutPower, inMachine, nodeReady, startMachine } from "../../scripts/cluster/machine.ts";
import { kill } from "../../scripts/cluster/processes.ts";
import { byNode, deployCentral, drivers, settled, undeploy } from "./deploy.ts";
import { apply, bound, eventually, find, inPod, kube, list, removeSoon, running } from "./kube.ts";
import { claim, pod, storageClass } from "./objects.ts";
import { tidy } from "./scenes/left.ts";
import { csimux, killing, processes } from "./scenes/processes.ts";

beforeAll(async () => {
  await deployCentral(byNode);
  await apply(
    storageClass("fast", drivers.central, "fast"),
    storageClass("now", drivers.central, "fast", { volumeBindingMode: "Immediate" }),
  );
});
afterEach(() => tidy());
afterAll(async () => {
  await kube("delete", "storageclass", "fast", "now");
  await undeploy("cluster");
});

const counting = "i=0; while true; do i=$((i+1)); echo $i > /data/n; sleep 0.2; done";
const count = async (name: string): Promise<number> =>
  Number((await inPod(name, "cat /data/n").catch(() => "")) || Number.NaN);

/** Waits until the pod's counter has increased. */
async function goesOn(name: string): Promise<void> {
  const from = await eventually("a count", 60_000, async () => (await count(name)) || undefined);
  await eventually("it continues", 60_000, async () => (await count(name)) > from);
}

describe("running pods continue, and requests complete", () => {
  test("when kubelet is killed", async () => {
    await apply(claim("a", "fast"), pod("a", "a", { run: counting }));
    await running("a");
    expect(kill((await processes()).filter(({ command }) => command.startsWith("kubelet ")))).toBe(1);
    await apply(claim("b", "fast"), pod("b", "b"));
    await running("b");
    await goesOn("a");
  });

  test("when the node plugin is killed while pods come and go", async () => {
    await apply(claim("a", "fast"), pod("a", "a", { run: counting }));
    await running("a");
    const names = Array.from({ length: 8 }, (_, index) => `n${index}`);
    const work = (async () => {
      await apply(...names.flatMap(name => [claim(name, "fast"), pod(name, name, { run: `echo ${name} > /data/f` })]));
      await running(...names);
      await removeSoon("pods", ...names.slice(4));
    })();
    expect(await killing(work, "node", 3)).toBeGreaterThan(0);
    await goesOn("a");
    for (const name of names.slice(0, 4)) expect(await inPod(name, "cat /data/f")).toBe(`${name}\n`);
  });

  test("when the controllers are killed while claims and copies are made", async () => {
    const fill =
      "dd if=/dev/urandom of=/data/big bs=1M count=64 2>/dev/null; md5sum < /data/big > /data/sum; sync; touch /data/done";
    await apply(claim("a", "fast"), pod("a", "a", { run: fill }));
    await running("a");
    await eventually("the files are written", 60_000, async () => (await inPod("a", "ls /data")).includes("done"));
    const claims = Array.from({ length: 12 }, (_, index) => `c${index}`);
    const copies = Array.from({ length: 4 }, (_, index) => `copy${index}`);
    const work = (async () => {
      await apply(...claims.map(name => claim(name, "now")));
      await apply(...copies.map(name => claim(name, "now", { from: { claim: "a" } })));
      await bound(...claims, ...copies);
    })();
    expect(await killing(work, "controller", 6)).toBeGreaterThan(1);
    expect(await list("pv")).toHaveLength(1 + claims.length + copies.length);
    await apply(...copies.map(name => pod(name, name)));
    await running(...copies);
    const sum = await inPod("a", "cat /data/sum");
    for (const name of copies) expect(await inPod(name, "md5sum < /data/big")).toBe(sum);
  });

  test("when the machine loses power and a pod is deleted before it restarts", async () => {
    await apply(
      claim("a", "fast"),
      pod("a", "a", { run: "date >> /data/boots; sync" }),
      claim("b", "fast"),
      pod("gone", "b", { run: "echo kept > /data/f; sync" }),
    );
    await running("a", "gone");
    await eventually("both have written", 30_000, async () => (await inPod("gone", "cat /data/f")) === "kept\n");
    await removeSoon("pod", "gone");
    await cutPower();
    await startMachine();
    await nodeReady();
    await settled(drivers.central);
    await eventually("the pod has booted twice", 180_000, async () => {
      const boots = await inPod("a", "cat /data/boots").catch(() => "");
      return boots.trim().split("\n").length >= 2;
    });
    await eventually("the other pod is gone", 180_000, async () => (await find("pod", "gone")) === undefined);
    await apply(pod("again", "b"));
    await running("again");
    expect(await inPod("again", "cat /data/f")).toBe("kept\n");
  });

  test("when the records of the node plugin are lost", async () => {
    await apply(claim("a", "fast"), pod("a", "a", { run: "echo x > /data/f; sync" }));
    await running("a");
    const records = "/var/lib/csimux/csimux.storage";
    expect((await inMachine(["sh", "-c", `ls ${records} && rm -rf ${records}`])).code).toBe(0);
    expect(kill(await csimux("node"))).toBe(1);
    await apply(pod("b", "a"));
    await running("b");
    expect(await inPod("b", "cat /data/f")).toBe("x\n");
  });
});
