import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { kill } from "../../scripts/cluster/processes.ts";
import { dataOutside, deployCentral, undeploy } from "./deploy.ts";
import { apply, bound, eventually, get, inPod, kube, list, ready, warnings } from "./kube.ts";
import { snapshot } from "./objects.ts";
import {
  copyOf,
  filled,
  halfway,
  isVolume,
  listed,
  manyFiles,
  nothingRuns,
  rsyncs,
  seen,
  seenBy,
  slowAndFast,
  slowAndFastClasses,
  volumeName,
} from "./scenes/copying.ts";
import { tidy } from "./scenes/left.ts";
import { killLeader, leader, processesOf } from "./scenes/processes.ts";

// Claims get the content of claims and VolumeSnapshots on another storage system: of folders, many files of all kinds.

const say = (line: string): void => void process.stdout.write(`    ${line}\n`);

/** Runs work and tells how long it took. */
async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now();
  const result = await work();
  say(`${what}: ${Math.round((performance.now() - began) / 1_000)} s`);
  return result;
}

beforeAll(async () => {
  await deployCentral(slowAndFast());
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

const volumesOn = async (connection: string): Promise<readonly string[]> =>
  (await readdir(join(dataOutside, connection, "v")).catch(() => [])).sort();

/** Exactly these claims have volumes on the storage system of the copies, and no copy is left. */
async function onlyThese(...claims: readonly string[]): Promise<void> {
  const names = await Promise.all(claims.map(volumeName));
  expect(await volumesOn("fast")).toEqual([...names].sort());
  for (const name of claims) expect((await bound(name)).spec.csi.volumeHandle).toBe(`v:fast/${await volumeName(name)}`);
  await eventually("the records of the copies are gone", 60_000, async () => (await listed()).length === 0);
}

/** Waits for an event of one of the claims, and returns it. */
const told = (text: RegExp, ...names: readonly string[]): Promise<string> =>
  eventually(
    `${names.join(" or ")} gets an event ${text}`,
    240_000,
    async () => (await Promise.all(names.map(warnings))).flat().find(each => text.test(each)),
    ...names,
  );

const progress = /being copied from connection "slow" \(rsync\): [0-9.]+ (bytes|[KMG]iB)/;

describe("a claim of another class", () => {
  test("has the content of a claim, or of a VolumeSnapshot; its events show the progress, and whether it waits for its turn", async () => {
    await timed("files written", () => filled("a", manyFiles));
    const before = await seen("a");
    await apply(snapshot("s", "a", "csimux"));
    await timed("snapshot", () => ready("s"));
    await inPod("a", "rm -r /data/m/0; echo later > /data/f; chmod 600 /data/d; sync");
    const now = await seen("a");
    expect(now).not.toBe(before);
    await timed("both copies", async () => {
      await apply(copyOf("live", "fast", { claim: "a" }), copyOf("restored", "fast", { snapshot: "s" }));
      await told(/queued, 1 copy ahead/, "live", "restored");
      for (const name of ["live", "restored"]) say(`event of ${name}: ${await told(progress, name)}`);
      await bound("live", "restored");
    });
    expect(await seenBy("live", "restored")).toEqual([now, before]);
    await onlyThese("live", "restored");
    expect(await seen("a")).toBe(now);
  });
});

describe("a copy is complete, and there is one, after SIGKILL in mid-copy", () => {
  const kills = [
    {
      what: "of the leading csimux",
      from: "claim",
      killed: async () => {
        const pod = await leader();
        const own = pod ? await processesOf(pod) : [];
        return kill(own.filter(({ command }) => command.startsWith("/usr/local/bin/csimux serve "))) > 0;
      },
    },
    { what: "of every process of the leading pod, which is removed", from: "snapshot", killed: killLeader },
  ] as const;

  test.each(kills)("$what (from a $from)", async ({ from, killed }) => {
    await filled("a", manyFiles);
    const content = await seen("a");
    await apply(snapshot("s", "a", "csimux"));
    await ready("s");
    await apply(copyOf("b", "fast", from === "claim" ? { claim: "a" } : { snapshot: "s" }));
    const id = await halfway("b");
    const victims = (await rsyncs()).map(({ pid }) => pid);
    expect(victims.length).toBeGreaterThan(0);
    expect(await killed()).toBe(true);
    await eventually(
      "its rsync ends with it",
      5_000,
      async () => !(await rsyncs()).some(each => victims.includes(each.pid)),
    );
    expect(isVolume(id)).toBe(false);
    await timed("from the kill to the volume", () =>
      eventually(
        "the copy is complete, and never made twice at once",
        420_000,
        async () => {
          expect(new Set((await rsyncs()).map(({ cgroup }) => cgroup)).size).toBeLessThan(2);
          return (await get("pvc", "b")).status?.phase === "Bound";
        },
        "b",
      ),
    );
    expect(await seenBy("b")).toEqual([content]);
    await onlyThese("b");
    expect(await list("pv")).toHaveLength(2);
  });
});
