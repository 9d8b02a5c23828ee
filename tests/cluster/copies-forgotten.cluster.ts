import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { readFile, writeFile } from "node:fs/promises";
import { readRecord, writeRecord } from "../../lib/copies/record.ts";
import { kill, send } from "../../scripts/cluster/processes.ts";
import { deployCentral, namespace, undeploy } from "./deploy.ts";
import {
  apply,
  eventually,
  find,
  get,
  kube,
  list,
  type Resource,
  ready,
  remove,
  removeSoon,
  warnings,
} from "./kube.ts";
import { snapshot } from "./objects.ts";
import {
  copies,
  copyOf,
  filled,
  halfway,
  isVolume,
  type Listed,
  listed,
  nothingRuns,
  recordOf,
  rsyncs,
  seen,
  seenBy,
  slowAndFast,
  slowAndFastClasses,
} from "./scenes/copying.ts";
import { nothingLeft, tidy } from "./scenes/left.ts";
import { csimux, leader, processes } from "./scenes/processes.ts";

// Copies of claims that were deleted meanwhile. A copy that is not asked for pauses after a minute here, and is removed after an hour.

/** Enough that a test meets the copy in the middle. */
const someFiles = 20_000;

beforeAll(async () => {
  await deployCentral(slowAndFast("{ idleMinutes: 1, keepHours: 1 }"));
  await apply(...slowAndFastClasses);
});
afterEach(async () => {
  await tidy(240_000);
  await nothingRuns();
});
afterAll(async () => {
  await kube("delete", "storageclass", "slow", "fast");
  await undeploy("cluster");
});

/** A copy of a claim that has come halfway and stands still there, as on storage that hangs. */
async function copyThatHangs(): Promise<string> {
  await filled("a", someFiles);
  await remove("pod", "a");
  await apply(copyOf("b", "fast", { claim: "a" }));
  const id = await halfway("b");
  expect(send("SIGSTOP", await rsyncs())).toBeGreaterThan(0);
  expect(isVolume(id)).toBe(false);
  return id;
}

/** Waits until a copy pauses because it is not asked for, and its programs have ended. */
const paused = (id: string): Promise<Listed> =>
  eventually("the copy pauses", 240_000, async () => {
    const copy = (await listed()).find(({ name }) => name === id);
    return copy?.state === "paused" && (await rsyncs()).length === 0 && copy;
  });

/** Kills the provisioners of both replicas, so that no process remembers a deleted claim. */
async function restartProvisioners(): Promise<void> {
  const own = (await processes()).filter(({ command }) => command.startsWith("/csi-provisioner "));
  expect(kill(own)).toBe(2);
}

/** Kubernetes asks csimux to delete the volume of the source, which it refuses. */
const isKept = (name: string, id: string): Promise<string> =>
  eventually(
    "the deletion of the source is refused",
    120_000,
    async () => (await warnings(name)).find(each => each.includes(`is being copied to "v:fast/${id}"`)),
    name,
  );

/** Sets the last request for a copy back, since a test cannot wait for an hour. */
async function setBack(id: string, hours: number): Promise<void> {
  const file = recordOf(id);
  const kept = JSON.parse(await readFile(file, "utf8")) as { readonly record: string };
  const record = readRecord(kept.record, id);
  const earlier = writeRecord({ ...record, asked: record.asked - hours * 3_600 });
  await writeFile(file, `${JSON.stringify({ ...kept, record: earlier })}\n`);
}

/** Ends the time for which the record of a copy is kept: csimux looks for what copies have left when it starts, and then each hour. */
async function forgotten(id: string): Promise<void> {
  await setBack(id, 2);
  expect(kill(await csimux("controller"))).toBe(2);
  await nothingLeft(240_000);
}

const volumeOf = async (claim: string): Promise<Resource> => get("pv", (await get("pvc", claim)).spec.volumeName);

test("the copy of a deleted claim is never completed once the provisioners have restarted, and is removed after the time to keep it", async () => {
  const id = await copyThatHangs();
  const source = await volumeOf("a");
  await remove("pvc", "b");
  await restartProvisioners();
  const restarted = Date.now() / 1_000;
  expect((await paused(id)).asked).toBeLessThan(restarted + 10);
  await removeSoon("pvc", "a");
  await isKept(source.metadata.name, id);
  expect(isVolume(id)).toBe(false);
  expect((await list("pv")).map(({ metadata }) => metadata.name)).toEqual([source.metadata.name]);
  await forgotten(id);
});

// csi-provisioner sends no request for a claim that is being deleted, and Kubernetes keeps that while the new claim is Pending.
test("a copy whose source claim is deleted is not completed; deleting the claim and cancelling the copy leaves a record for an hour", async () => {
  const id = await copyThatHangs();
  const source = await volumeOf("a");
  await removeSoon("pvc", "a");
  await eventually("the claim gets an event", 120_000, async () =>
    (await warnings("b")).some(each => each.includes("currently being deleted")),
  );
  await paused(id);
  expect((await get("pvc", "b")).status.phase).toBe("Pending");
  expect(isVolume(id)).toBe(false);
  await remove("pvc", "b");
  await eventually("the source is gone", 240_000, async () => (await find("pvc", "a")) === undefined);
  await isKept(source.metadata.name, id);
  await copies("deploy/csimux-controller", "cancel", `v:fast/${id}`);
  expect((await listed()).map(({ name, state }) => [name, state])).toEqual([[id, "cancelled"]]);
  expect(isVolume(id)).toBe(false);
  await forgotten(id);
});

test("a copy whose VolumeSnapshot is deleted is completed, and the snapshot goes then", async () => {
  await filled("a", someFiles);
  const content = await seen("a");
  await apply(snapshot("s", "a", "csimux"));
  await ready("s");
  await apply(copyOf("b", "fast", { snapshot: "s" }));
  await halfway("b");
  await removeSoon("volumesnapshot", "s");
  expect(await seenBy("b")).toEqual([content]);
  await eventually("the snapshot is gone", 120_000, async () => (await list("volumesnapshotcontent")).length === 0);
});

test("a copy that is cancelled through the controller that does not lead is gone when the command ends", async () => {
  const id = await copyThatHangs();
  const leading = await leader();
  const pods = await list("pods", namespace, "-l", "app.kubernetes.io/component=controller");
  const other = pods.find(({ metadata }) => metadata.name !== leading?.metadata.name);
  await removeSoon("pvc", "b");
  await copies(other?.metadata.name ?? "", "cancel", `v:fast/${id}`);
  expect(await rsyncs()).toEqual([]);
  expect(isVolume(id)).toBe(false);
  await eventually(
    "the next request is refused, and removes the record",
    240_000,
    async () => (await listed()).length === 0,
  );
});

test("the copy of a claim that was deleted alone is completed, and Kubernetes deletes the volume", async () => {
  await filled("a", someFiles);
  await apply(copyOf("b", "fast", { claim: "a" }));
  const id = await halfway("b");
  await remove("pvc", "b");
  const made = await eventually("its volume is made", 240_000, () => find("pv", id));
  expect(made.spec.csi.volumeHandle).toBe(`v:fast/${id}`);
  await eventually("its volume is deleted", 240_000, async () => (await find("pv", id)) === undefined);
  expect(isVolume(id)).toBe(false);
});
