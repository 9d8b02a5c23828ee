import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { mountCapability } from "../../scripts/client.ts";
import { codeOf, status, untilDone, type World } from "../serve/world.ts";
import { mounting } from "./disk-volume.ts";
import { startCsimux } from "./rig.ts";
import { run, waitFor } from "./run.ts";
import { leftSince, traces } from "./traces.ts";

/** An address of this machine at which nothing answers: whatever arrives for it is dropped. */
const absent = "10.99.0.9";
const count = 50;

let before: ReadonlySet<string>;
let world: World;
beforeAll(async () => {
  before = await traces();
  world = await startCsimux({ connections: {} });
  // Started by who needs it; otherwise the first login would wait for its start.
  await run(["systemctl", "start", "iscsid"]);
  await run(["ip", "address", "add", `${absent}/32`, "dev", "lo"]);
  const rules = ["add table inet absent", "add chain inet absent in { type filter hook input priority 0; }"];
  for (const rule of [...rules, `add rule inet absent in ip daddr ${absent} drop`]) await run(["nft", rule]);
}, 600_000);
afterAll(async () => {
  await run(["nft", "delete table inet absent"]);
  await run(["ip", "address", "del", `${absent}/32`, "dev", "lo"]);
  expect(await world.end()).toEqual([]);
  expect(await leftSince(before)).toEqual([]);
}, 600_000);

interface Times {
  readonly median: number;
  readonly slowest: number;
  readonly count: number;
}

/** How long Probe takes, in milliseconds, asked again and again for three seconds or as long as it is worth while. */
async function probed(isWorthWhile = () => true): Promise<Times> {
  const times: number[] = [];
  for (const from = performance.now(); performance.now() - from < 3_000 && isWorthWhile(); await pause(50)) {
    const asked = performance.now();
    expect((await world.probe()).ready).toBe(true);
    times.push(performance.now() - asked);
  }
  times.sort((a, b) => a - b);
  return { median: times[times.length >> 1] ?? Number.NaN, slowest: times.at(-1) ?? Number.NaN, count: times.length };
}

const told = ({ median, slowest, count }: Times): string =>
  `${median.toFixed(0)} ms in the middle, ${slowest.toFixed(0)} ms at most, of ${count}`;

/** Volumes of each protocol on the server that is not there, and the program that waits for it. */
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
  const idle = await probed();
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
  // Fifty programs that start at once take all of a slow processor: what is measured is how they hang. iscsiadm takes turns at first.
  for (const kind of some) {
    const least = kind === "iscsi" ? 1 : count / some.length / 2;
    const hang = async () => (await running(kinds[kind].program)) >= least || ended > count / 4 || undefined;
    await waitFor(`${kind} that hangs`, hang, 60_000);
  }
  const hang = await probed(() => ended < count / 2);
  process.stderr.write(
    `${some.join(", ")}: Probe while ${count - ended} calls hang: ${told(hang)}; idle: ${told(idle)}\n`,
  );
  // The processor of the lab is slow, and whoever builds beside it makes it slower; a hang is more than all of that.
  expect(hang.median).toBeLessThan(100 + 3 * idle.slowest);
  const uncertain: readonly unknown[] = [status.deadlineExceeded, status.unavailable];
  expect((await Promise.all(calls)).filter(code => !uncertain.includes(code))).toEqual([]);
  expect(Date.now() - began).toBeLessThan(110_000);
  for (const { volumeId, stagingTargetPath } of volumes)
    await untilDone(() => world.node("nodeUnstageVolume", { volumeId, stagingTargetPath }, 60_000));
}

test.each([[["iscsi"]], [["smb"]], [["nfs", "smb", "iscsi"]]] as const)(
  "Probe answers at once while fifty calls hang on dead servers of %p, and all of them end in time",
  hanging,
  600_000,
);
