import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { random } from "../lint/mutants.ts";
import type { World } from "../serve/world.ts";
import { cycle } from "./chaos/cycle.ts";
import { Kubelet } from "./chaos/kubelet.ts";
import { Ledger } from "./chaos/ledger.ts";
import { storages } from "./chaos/storage.ts";
import { startCsimux } from "./rig.ts";
import { leftSince, traces } from "./traces.ts";

// LAB_CYCLES: cycles for each protocol. LAB_SEED: the same faults again. LAB_PROTOCOLS: only these ("nfs iscsi").
const cycles = Number(process.env["LAB_CYCLES"] ?? 4);
const seed = Number(process.env["LAB_SEED"] ?? Date.now() % 1_000_000);
const wanted = process.env["LAB_PROTOCOLS"]?.split(" ") ?? Object.keys(storages);

let before: ReadonlySet<string>;
let world: World;
/** Traces that remain because of a bug in the lab's kernel. */
const stays = new Set<string>();
beforeAll(async () => {
  before = await traces();
  world = await startCsimux({ connections: {} });
}, 600_000);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  expect(await leftSince(new Set([...before, ...stays]))).toEqual([]);
}, 600_000);

/** Does both, even if the first fails, and throws the first failure, which usually causes the second. */
async function thenDown(life: () => Promise<void>, down: () => Promise<void>): Promise<void> {
  const failures: unknown[] = [];
  for (const part of [life, down]) await part().catch(error => failures.push(error));
  for (const also of failures.slice(1)) say(`and then, when everything was taken down: ${also}`);
  if (failures.length > 0) throw failures[0];
}

const say = (text: string): void => void process.stderr.write(`${text}\n`);

/** Records of csimux: of volumes, and of sessions that it opened. */
async function records(): Promise<readonly string[]> {
  const folders = ["volumes", "opened", "formats"].map(name => join(world.sandbox.stateDir, name));
  return (await Promise.all(folders.map(folder => readdir(folder).catch(() => [])))).flat();
}

for (const [protocol, make] of Object.entries(storages).filter(([name]) => wanted.includes(name))) {
  test(
    `${protocol}: whatever happens between two steps, no data are lost and nothing is left over`,
    async () => {
      const pick = random(seed + protocol.length * 7919 + protocol.charCodeAt(0));
      const storage = await make(pick);
      const kubelet = new Kubelet(world, storage);
      await using ledger = await Ledger.open();
      const life = async () => {
        const idle = await traces();
        for (let number = 0; number < cycles; number++) {
          const from = performance.now();
          const what = await cycle(`data-${number}`, kubelet, ledger, storage.faults, pick);
          const took = ((performance.now() - from) / 1000).toFixed(1);
          say(`${protocol} ${number + 1}/${cycles}, seed ${seed}: ${what}; ${took} s`);
          expect(await leftSince(idle)).toEqual([]);
          expect(await records()).toEqual([]);
        }
        const failures = [...kubelet.failures].map(([code, count]) => `${count} × ${code}`).join(", ");
        say(`${protocol}: ${cycles} cycles; calls that failed on the way, by code: ${failures || "none"}`);
        expect(kubelet.wrong).toEqual([]);
        await kubelet.stage();
        await kubelet.publish();
        expect(await ledger.wrong(kubelet.target)).toEqual([]);
        expect(ledger.size).toBeGreaterThan(0);
        await kubelet.unpublish();
        await kubelet.unstage();
      };
      const down = async () => {
        for (const { end } of storage.faults) await end();
        for (const trace of await storage.close()) {
          say(`${protocol}: the kernel keeps it, through a fault of its own: ${trace}`);
          stays.add(trace);
        }
      };
      await thenDown(life, down);
    },
    120_000 + cycles * 300_000,
  );
}
