import { expect } from "bun:test";
import { seconds } from "../../lib/copies/lease.ts";
import type { CopyAnswer, CopyCommand } from "../../lib/copies/protocol.ts";
import { readRecord, writeRecord } from "../../lib/copies/record.ts";
import type { CopyTarget } from "../../lib/drivers/copying.ts";
import type { Driver } from "../../lib/drivers/driver.ts";
import { CopyStorage, copyDriver, streamInMemory } from "../fakes/memory-copies.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { codeOf } from "../mux/world.ts";
import { type CopyWorldParts, copyProcess, copyRequest, until } from "./copy-world.ts";

/** A patient call. */
export const call = testCall();
/** What the source has. */
export const content = "x".repeat(100);

/** Storages of connections a, b and c; a has the volume "source". `gate` holds all streams until it is opened. */
export function pair() {
  const storages = new Map(["a", "b", "c"].map(name => [name, new CopyStorage()]));
  const on = (name: string): CopyStorage => storages.get(name) ?? new CopyStorage();
  on("a").volumes.set("source", { content, bytes: 1n << 20n });
  let open = () => {};
  let isReached = false;
  const hold = () => {
    isReached = false;
    const gate = new Promise<void>(resolve => {
      open = resolve;
    });
    for (const each of storages.values())
      each.gate = () => {
        isReached = true;
        return gate;
      };
  };
  /** Waits until a stream is held: its process has become the owner of the copy. */
  const reached = () => until(() => isReached);
  const drivers = new Map([...storages].map(([name, storage]) => [name, () => copyDriver(storage, name)]));
  const process = (more: Partial<CopyWorldParts> = {}) =>
    copyProcess({ drivers, stream: streamInMemory(storages), ...more });
  /** A process that sees the storage of one connection through a changed driver, which meets others at its steps. */
  const changed = (
    where: string,
    change: (whole: Driver, target: CopyTarget) => Partial<Driver>,
    more: Partial<CopyWorldParts> = {},
  ) => {
    const driver = (): Driver => {
      const whole = copyDriver(on(where), where);
      return whole.copyTarget ? { ...whole, ...change(whole, whole.copyTarget) } : whole;
    };
    return process({ drivers: new Map([...drivers, [where, driver]]), ...more });
  };
  const record = (name = "copy", where = "b") => readRecord(on(where).records.get(name) ?? "", "test");
  const remains = () => [...storages.values()].flatMap(each => each.remains());
  return { on, hold, reached, release: () => open(), process, changed, record, remains };
}

/** A process over the pair. */
export type Process = ReturnType<ReturnType<typeof pair>["process"]>;
/** Asks once for a copy of the source. */
export const make = (process: Process, connection = "b", name = "copy") =>
  process.volumes.create(copyRequest(name, connection, "v:a/source"), call);

/** A pair with a claim's copy that is complete, and that nothing has asked for since; the process that made it has no lease. */
export async function complete(more: Partial<CopyWorldParts> = {}) {
  const world = pair();
  world.hold();
  const one = world.process(more);
  expect(await codeOf(make(one))).toBe("aborted");
  world.release();
  await until(() => world.record().state === "ready");
  return { ...world, one };
}

/** A pair with a copy that was interrupted, and that its claim has not asked for for three days. */
export async function abandoned() {
  const world = pair();
  world.hold();
  const one = world.process();
  expect(await codeOf(make(one))).toBe("aborted");
  const stopping = one.stop(1_000);
  world.release();
  await stopping;
  world.on("b").records.set("copy", writeRecord({ ...world.record(), asked: seconds() - 73 * 3_600 }));
  return { ...world, onTarget: () => world.remains().filter(each => !each.startsWith("snapshot")) };
}

/** The lines of a command. */
export async function commanded(process: Process, command: CopyCommand): Promise<readonly CopyAnswer[]> {
  const answers: CopyAnswer[] = [];
  await process.copies.command(command, answer => void answers.push(answer), call.signal, call);
  return answers;
}
