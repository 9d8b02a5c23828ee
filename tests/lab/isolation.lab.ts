import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { mountCapability } from "../../scripts/client.ts";
import { codeOf, status, type World } from "../serve/world.ts";
import { mounting } from "./disk-volume.ts";
import { persistently } from "./persistently.ts";
import { startCsimux } from "./rig.ts";
import { run, waitFor } from "./run.ts";
import { leftSince, traces } from "./traces.ts";

/** An address of this machine at which nothing answers: incoming packets are dropped. */
const absent = "10.99.0.9";
const count = 50;

let before: ReadonlySet<string>;
let world: World;
/** An idle csimux: the duration of its Probe measures the machine's slowness. */
let calm: World;
beforeAll(async () => {
  before = await traces();
  world = await startCsimux({ connections: {} });
  calm = await startCsimux({ connections: {}, env: { CSI_NODE_ID: "calm" } });
  // Started here; otherwise the first login would wait for its start.
  await run(["systemctl", "start", "iscsid"]);
  await run(["ip", "address", "add", `${absent}/32`, "dev", "lo"]);
  const rules = ["add table inet absent", "add chain inet absent in { type filter hook input priority 0; }"];
  for (const rule of [...rules, `add rule inet absent in ip daddr ${absent} drop`]) await run(["nft", rule]);
}, 600_000);
afterAll(async () => {
  await run(["nft", "delete table inet absent"]);
  await run(["ip", "address", "del", `${absent}/32`, "dev", "lo"]);
  expect(await calm.end()).toEqual([]);
  expect(await world.end()).toEqual([]);
  expect(await leftSince(before)).toEqual([]);
}, 600_000);

/** The median duration of Probe in milliseconds, with hanging calls and on the idle csimux, and the number of probes. */
interface Times {
  readonly here: number;
  readonly beside: number;
  readonly count: number;
}

const median = (times: readonly number[]): number => [...times].sort((a, b) => a - b)[times.length >> 1] ?? Number.NaN;

async function probe(asked: World): Promise<number> {
  const from = performance.now();
  expect((await asked.probe()).ready).toBe(true);
  return performance.now() - from;
}

/** Probes both alternately for some milliseconds, so that other load of the machine affects both. */
async function probed(ms: number, isWorthWhile = () => true): Promise<Times> {
  const here: number[] = [];
  const beside: number[] = [];
  for (const from = performance.now(); performance.now() - from < ms && isWorthWhile(); await pause(50)) {
    here.push(await probe(world));
    beside.push(await probe(calm));
  }
  return { here: median(here), beside: median(beside), count: here.length };
}

const told = ({ here, beside, count }: Times): string =>
  `${here.toFixed(0)} ms, of an idle csimux ${beside.toFixed(0)} ms, each ${count} times`;

/** Volumes of each protocol on the missing server, and the program that waits for it. */
const kinds = {
  nfs: {
    program: "mount.nfs",
    context: () => ({ server: absent, share: "/srv" }),
    capability: { ...mountCapability, accessType: { case: "mount" as const, value: { mountFlags: ["vers=4.2"] } } },
  },
  smb: { program: "mount.cifs", context: () => ({ server: absent, share: "files" }), capability: mountCapability },
  iscsi: {
    program: "iscsiadm",
    context: (at: number) => ({ iqn: `iqn.2025-01.lab.csimux:absent-${at}`, lun: "0", portal: absent }),
    capability: mounting("ext4"),
  },
};
type Kind = keyof typeof kinds;

const running = async (program: string): Promise<number> =>
  (await run(["ps", "-e", "-o", "comm="])).split("\n").filter(name => name.startsWith(program)).length;

async function hanging(some: readonly Kind[]): Promise<void> {
  const idle = await probed(2_000);
  const volumes = Array.from({ length: count }, (_, at) => {
    const kind = some[at % some.length] ?? "nfs";
    const stagingTargetPath = join(world.sandbox.folder, `hanging-${kind}-${at}`);
    return { volumeId: `v:lab/hanging-${kind}-${at}`, kind, at, stagingTargetPath };
  });
  for (const { stagingTargetPath } of volumes) await mkdir(stagingTargetPath, { recursive: true });
  const began = Date.now();
  let ended = 0;
  const calls = volumes.map(async ({ volumeId, kind, at, stagingTargetPath }) => {
    const volumeContext = { node_attach_driver: kind, ...kinds[kind].context(at) };
    const request = { volumeId, stagingTargetPath, volumeContext, volumeCapability: kinds[kind].capability };
    const code = await codeOf(world.node("nodeStageVolume", request as never, 90_000));
    ended++;
    return code;
  });
  try {
    // Fifty programs that start at once use all of a slow processor, but this measures hanging. iscsiadm runs one at a time first.
    for (const kind of some) {
      const least = kind === "iscsi" ? 1 : count / some.length / 2;
      const hangs = async () => (await running(kinds[kind].program)) >= least || ended > count / 4 || undefined;
      await waitFor(`${kind} that hangs`, hangs, 60_000);
    }
    const hang = await probed(10_000, () => ended < count / 2);
    process.stderr.write(
      `${some.join(", ")}: Probe while ${count - ended} calls hang: ${told(hang)}; idle: ${told(idle)}\n`,
    );
    expect(hang.here - hang.beside).toBeLessThan(100);
    const uncertain: readonly unknown[] = [status.deadlineExceeded, status.unavailable];
    expect((await Promise.all(calls)).filter(code => !uncertain.includes(code))).toEqual([]);
    expect(Date.now() - began).toBeLessThan(110_000);
  } finally {
    await Promise.all(calls);
    const unstage = ({ volumeId, stagingTargetPath }: (typeof volumes)[number]) =>
      persistently(() => world.node("nodeUnstageVolume", { volumeId, stagingTargetPath }, 60_000));
    await Promise.all(volumes.map(unstage));
  }
}

test.each([[["nfs"]], [["smb"]], [["iscsi"]], [["nfs", "smb", "iscsi"]]] as const)(
  "Probe answers at once while fifty calls hang on dead servers of %p, and all of them end in time",
  hanging,
  600_000,
);
