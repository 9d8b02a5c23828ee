import { expect } from "bun:test";
import type { CopyByStream } from "../../../lib/copies/copy-work.ts";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { asked, type CopyProcess, copyProcess, copyRequest, until } from "../../copy/copy-world.ts";
import { testCall } from "../../fakes/memory-driver.ts";
import { failure } from "../../mux/world.ts";
import { drawn } from "../../sample.ts";

/** Two csimux processes, and a copy from v:a/source to v:b/copy: the second one acts between two steps of the first. */

const call = testCall();

/** Awaits `before` at each step of a driver: each request to the storage as source or target of a copy. */
export function stepped(driver: Driver, before: () => Promise<void>): Driver {
  const each = <T extends object>(ability: T | undefined): T | undefined =>
    ability &&
    new Proxy(ability, {
      get(target, key) {
        const value: unknown = Reflect.get(target, key);
        if (typeof value !== "function" || key === "idOf") return value;
        return async (...all: readonly unknown[]) => {
          await before();
          return Reflect.apply(value, target, all);
        };
      },
    });
  const steps: Partial<Driver> = { copySource: each(driver.copySource), copyTarget: each(driver.copyTarget) };
  return new Proxy(driver, {
    get(target, key) {
      if (key in steps) return Reflect.get(steps, key);
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

type Other = (two: CopyProcess, make: (process: CopyProcess) => Promise<unknown>) => Promise<unknown>;

/** What the second one does. */
export const others: readonly (readonly [string, Other])[] = [
  ["makes the same copy", (two, make) => make(two)],
  ["deletes the volume", two => two.volumes.delete("v:b/copy", call)],
  [
    "deletes the volume and makes it again",
    async (two, make) => {
      await asked(() => two.volumes.delete("v:b/copy", call), 30_000);
      await asked(() => make(two), 30_000);
    },
  ],
  ["removes what is left", two => two.copies.cleanUp(call)],
  // Its client does not wait until a copy that runs has read the cancellation.
  [
    "cancels",
    two => two.copies.command({ command: "cancel", target: "v:b/copy" }, () => {}, AbortSignal.timeout(50), call),
  ],
  [
    "cancels and makes it again",
    async (two, make) => {
      const command = { command: "cancel", target: "v:b/copy" } as const;
      await two.copies.command(command, () => {}, AbortSignal.timeout(50), call);
      await failure(asked(() => make(two), 30_000));
    },
  ],
];

/** Storages on which two processes meet. */
export interface MeetingPlace {
  open(name: "a" | "b"): Driver;
  readonly stream?: CopyByStream;
  /** The content of the copy. */
  read(): Promise<string>;
  /** What copies have left on both storages. */
  remains(): Promise<readonly string[]>;
}

/** Plays every meeting, or a sample of them; the source and its content exist. What comes of it is one whole volume, and no remains. */
export async function meetAtSteps(place: MeetingPlace, work: Other, content: string, range: object): Promise<void> {
  const names = ["a", "b"] as const;
  const make = (process: CopyProcess) => process.volumes.create(copyRequest("copy", "b", "v:a/source", range), call);
  const process = (before: () => Promise<void>, keepSeconds?: number) =>
    copyProcess({
      drivers: new Map(names.map(name => [name, () => stepped(place.open(name), before)])),
      ...(place.stream && { stream: place.stream }),
      ...(keepSeconds !== undefined && { settings: { keepSeconds } }),
    });
  const alone = async () => {};
  const play = async (at: number): Promise<number> => {
    let step = 0;
    const two = process(alone);
    const one = process(async () => {
      if (++step === at) await failure(work(two, make));
    });
    const refused = await failure(asked(() => make(one), 40_000));
    expect([at, refused?.code ?? "ok", refused?.message]).toEqual([
      at,
      expect.stringMatching(/^(?:ok|failed-precondition)$/),
      refused?.message,
    ]);
    const steps = step;
    expect([at, (await asked(() => make(two), 40_000)).id]).toEqual([at, "v:b/copy"]);
    expect([at, await place.read()]).toEqual([at, content]);
    await asked(() => one.volumes.delete("v:b/copy", call), 40_000);
    // The snapshot of an attempt that came too late is the hourly clean-up's.
    const { copies } = process(alone, -1);
    await until(async () => {
      await copies.cleanUp(call);
      return (await place.remains()).length === 0;
    }, 5_000).catch(() => {});
    expect([at, await place.remains()]).toEqual([at, []]);
    await Promise.all([one.stop(1_000), two.stop(1_000)]);
    return steps;
  };
  const steps = await play(0);
  expect(steps).toBeGreaterThan(2);
  for (const at of drawn(
    Array.from({ length: steps }, (_, index) => index + 1),
    2,
  ))
    await play(at);
}
