import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { byNode, dataOutside, deployCentral, drivers, undeploy } from "./deploy.ts";
import { apply, eventually, find, kube, list, removeSoon } from "./kube.ts";
import { claim, snapshot, storageClass } from "./objects.ts";
import { tidy } from "./scenes/left.ts";
import { killLeader } from "./scenes/processes.ts";

const kills = Number(process.env["KILLS"] || 40);
const claims = Number(process.env["CLAIMS"] || 200);

beforeAll(async () => {
  await deployCentral(byNode);
  await apply(storageClass("now", drivers.central, "fast", { volumeBindingMode: "Immediate" }));
});
afterAll(async () => {
  await kube("delete", "storageclass", "now");
  await undeploy("cluster");
});

async function removeBound(names: readonly string[]): Promise<void> {
  const claims = await list("pvc");
  const ready = claims.filter(each => names.includes(each.metadata.name) && each.status?.phase === "Bound");
  if (ready.length > 0) await removeSoon("pvc", ...ready.map(({ metadata }) => metadata.name));
}

/**
 * Creates and deletes claims and snapshots: every fourth claim is deleted again, every tenth has a snapshot. Only bound claims are
 * deleted: if a claim is deleted during the creation of its volume and external-provisioner (6.3) dies before it has created the
 * PersistentVolume, the volume is lost, which is a fault of the sidecar.
 */
async function churn(goOn: () => boolean): Promise<number> {
  let made = 0;
  for (; made < claims; made += 5) {
    const names = Array.from({ length: 5 }, (_, index) => `c${made + index}`);
    await apply(...names.map(name => claim(name, "now")));
    if (made % 10 === 0) await apply(snapshot(`s${made}`, `c${made}`, "csimux"));
    if (made >= 20 && made % 20 === 0) await removeBound([1, 2, 3, 4, 5].map(back => `c${made - 20 + back}`));
    await new Promise(resolve => setTimeout(resolve, goOn() ? 4_000 : 0));
  }
  return made;
}

/** Folders of volumes on the storage of the class. */
const folders = async (): Promise<readonly string[]> =>
  (await readdir(join(dataOutside, "fast/v")).catch(() => [])).sort();

test(`nothing is lost, duplicated or orphaned when the leader is killed ${kills} times while ${claims} claims are created and deleted`, async () => {
  let met = 0;
  const work = churn(() => met < kills);
  const end = Date.now() + kills * 45_000;
  while (met < kills && Date.now() < end) {
    if (await killLeader()) met++;
    await new Promise(resolve => setTimeout(resolve, 3_000));
  }
  expect(await work).toBe(claims);
  expect(met).toBe(kills);
  await eventually("every claim is bound", 600_000, async () =>
    (await list("pvc")).every(
      each => each.status?.phase === "Bound" && each.metadata["deletionTimestamp" as "name"] === undefined,
    ),
  );
  await eventually("every snapshot is ready", 600_000, async () =>
    (await list("volumesnapshot")).every(each => each.status?.readyToUse),
  );
  const volumes = await list("pv");
  const wanted = (await list("pvc")).map(({ spec }) => spec.volumeName).sort();
  await eventually("one folder for each claim", 300_000, async () => {
    const there = await folders();
    return there.length === wanted.length && there.every((name, index) => name === wanted[index]);
  });
  expect(volumes.map(({ metadata }) => metadata.name).sort()).toEqual(wanted);
  expect(await find("pvc", "c199")).toBeDefined();
  await tidy(600_000);
}, 3_600_000);
