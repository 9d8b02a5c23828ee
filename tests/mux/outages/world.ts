import { afterEach, expect } from "bun:test";
import { CsiError } from "../../../lib/core/errors.ts";
import { testCall } from "../../fakes/memory-driver.ts";
import { failure, muxWorld } from "../world.ts";

const call = testCall();
export const away = new CsiError("unavailable", "no route to host");
const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

/** A router over storages with a check. `die` lets one fail like a machine that is switched off, until its breaker is open. */
export function world(names: readonly string[], group?: readonly string[], times = {}) {
  const mux = muxWorld(names, { look: 50, capacity: 50, ...times });
  stops.push(() => mux.stop(10));
  for (const name of names) mux.memory(name).check = async () => {};
  if (group) mux.groups.set("g", { from: { kind: "members", members: group }, policy: "ordered" });
  const seen = (name: string) => mux.overview(new Map()).connections.find(each => each.name === name);
  const outage = (name: string) => seen(name)?.outage;
  const stored = (name: string) => seen(name)?.health.storage;
  const fail = async (name: string, times = 3): Promise<void> => {
    const memory = mux.memory(name);
    memory.fail.delete = away;
    for (let i = 0; i < times; i++) await failure(mux.volumes.delete(`v:${name}/x${i}`, call));
    // The check runs by itself.
    for (let ticks = 0; ticks < 50; ticks++) await Promise.resolve();
  };
  const die = async (name: string): Promise<void> => {
    const memory = mux.memory(name);
    memory.check = async () => {
      throw away;
    };
    memory.fail.find = away;
    await fail(name);
    expect(outage(name)).toBeDefined();
  };
  return { ...mux, outage, stored, fail, die };
}
