import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Controller } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { type Dsm, startDsm } from "../../tests/fakes/dsm/double.ts";
import { type CsiClient, mountCapability } from "../client.ts";
import type { Sandbox } from "../sandbox.ts";
import { median } from "./load.ts";
import { memoryMiB } from "./process.ts";
import { inSetting, type Scale, type Setting } from "./setting.ts";
import type { Figure } from "./table.ts";

/** What one request takes a system here; a real one takes longer. */
const latencyMs = 20;
/** How many callers wait for the system that does not answer; each repeats its call as sidecars do. */
const waiting = 100;
const patienceMs = 4000;
/** Operations on the other system at once. */
const workers = 4;
/** A volume's operations that are timed: create, capacity, snapshot, expand, remove the snapshot, delete. */
const ofVolume = 6;
/** Operations on each side of a round: with those that wait, more than 200. */
const volumes = 20;

const gibibyte = 1n << 30n;

async function writeFiles({ connections }: Sandbox, systems: Readonly<Record<string, Dsm>>): Promise<void> {
  for (const [name, { port }] of Object.entries(systems)) {
    const httpConnection = { protocol: "http", host: "127.0.0.1", port, username: "csi", password: "secret-pw" };
    const lunTemplate = { type: "BLUN", dev_attribs: [{ dev_attrib: "can_snapshot", enable: 1 }] };
    const iscsi = { targetPortal: "10.0.0.1", baseiqn: "iqn.2000-01.com.synology:csi.", lunTemplate };
    await writeFile(
      join(connections, `${name}.yaml`),
      JSON.stringify({ driver: "synology-iscsi", httpConnection, iscsi }),
    );
  }
}

const creation = (name: string, connection: string) => ({
  name,
  parameters: { connection },
  capacityRange: { requiredBytes: gibibyte },
  volumeCapabilities: [mountCapability],
});

/** A volume's life on one system; adds the milliseconds of each call to `times`. */
async function life(client: CsiClient, name: string, connection: string, times: number[]): Promise<void> {
  const timed = async <T>(call: Promise<T>): Promise<T> => {
    const from = performance.now();
    const answer = await call;
    times.push(performance.now() - from);
    return answer;
  };
  const { method } = Controller;
  const { volume } = await timed(client.call(method.createVolume, creation(name, connection)));
  const volumeId = volume?.volumeId ?? "";
  await timed(client.call(method.getCapacity, { parameters: { connection } }));
  const { snapshot } = await timed(client.call(method.createSnapshot, { name, sourceVolumeId: volumeId }));
  const capacityRange = { requiredBytes: 2n * gibibyte };
  await timed(client.call(method.controllerExpandVolume, { volumeId, capacityRange }));
  await timed(client.call(method.deleteSnapshot, { snapshotId: snapshot?.snapshotId ?? "" }));
  await timed(client.call(method.deleteVolume, { volumeId }));
}

/** The times of `volumes` lives on the system that answers. */
async function round(client: CsiClient, name: string): Promise<readonly number[]> {
  const times: number[] = [];
  let next = 0;
  const work = async () => {
    for (let index = next++; index < volumes; index = next++) await life(client, `${name}-${index}`, "alive", times);
  };
  await Promise.all(Array.from({ length: workers }, work));
  if (times.length !== volumes * ofVolume)
    throw new Error(`${times.length} operations instead of ${volumes * ofVolume}`);
  return times;
}

/** Callers of every kind that wait for the system that does not answer, until `over`; answers how many calls they made. */
async function besiege(client: CsiClient, over: { now: boolean }): Promise<number> {
  let calls = 0;
  const { method } = Controller;
  const kinds = [
    (n: number) => client.call(method.createVolume, creation(`stuck-${n}`, "dead"), patienceMs),
    (n: number) => client.call(method.deleteVolume, { volumeId: `v:dead/gone-${n}` }, patienceMs),
    () => client.call(method.getCapacity, { parameters: { connection: "dead" } }, patienceMs),
    (n: number) =>
      client.call(method.createSnapshot, { name: `stuck-${n}`, sourceVolumeId: `v:dead/kept-${n}` }, patienceMs),
  ];
  const caller = async (n: number) => {
    while (!over.now) {
      calls++;
      const answered = await kinds[n % kinds.length]?.(n).then(
        () => true,
        () => false,
      );
      if (answered && !over.now) throw new Error("a system that does not answer was reported to have answered");
    }
  };
  await Promise.all(Array.from({ length: waiting }, (_, n) => caller(n)));
  return calls;
}

/** Waits until a system that is back has been asked for everything that was left: that is no part of the next round. */
async function atRest(dsm: Dsm): Promise<void> {
  const until = Date.now() + 30_000;
  for (let seen = -1; seen !== dsm.requests.length && Date.now() < until; await pause(1000)) seen = dsm.requests.length;
}

/** Rounds with both systems well and with one of them silent, in turn; the best of each counts, for others use this machine too. */
async function measure({ client, daemon }: Setting, dead: Dsm, rounds: number): Promise<readonly Figure[]> {
  await round(client, "warm");
  const well: number[] = [];
  const besieged: number[] = [];
  let calls = 0;
  let before = 0;
  for (let n = 0; n < rounds; n++) {
    well.push(median(await round(client, `well-${n}`)));
    dead.frozen = true;
    const over = { now: false };
    const siege = besiege(client, over);
    besieged.push(median(await round(client, `besieged-${n}`)));
    over.now = true;
    calls += await siege;
    dead.thaw();
    await atRest(dead);
    if (n === Math.floor(rounds / 2)) before = memoryMiB(daemon.pid).rss;
  }
  const after = memoryMiB(daemon.pid).rss;
  const [best, worst] = [Math.min(...well), Math.min(...besieged)];
  return [
    { what: `a call to one system of two, both well (best of ${rounds})`, value: best, unit: "ms" },
    { what: `  while ${calls} calls get no answer of the other`, value: worst, unit: "ms" },
    { what: "  ratio", value: worst / best, unit: "", target: 1.1 },
    { what: "  memory that the second half of the rounds adds", value: after - before, unit: "MiB" },
  ];
}

/** Two Synology systems behind one csimux; one takes every request and answers none. */
export async function blackHole(executable: string, scale: Scale): Promise<readonly Figure[]> {
  const [alive, dead] = [await startDsm(), await startDsm()];
  for (const dsm of [alive, dead]) dsm.latencyMs = latencyMs;
  const prepare = (sandbox: Sandbox) => writeFiles(sandbox, { alive, dead });
  try {
    return await inSetting({ executable, prepare }, setting => measure(setting, dead, scale.spawns));
  } finally {
    await Promise.all([alive.close(), dead.close()]);
  }
}
