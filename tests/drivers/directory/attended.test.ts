import { expect, test } from "bun:test";
import { CsiError } from "../../../lib/core/errors.ts";
import { Semaphore } from "../../../lib/core/semaphore.ts";
import { Layout } from "../../../lib/drivers/directory/layout.ts";
import type { OperationContext } from "../../../lib/drivers/directory/operation-context.ts";
import { whileAnswering } from "../../../lib/drivers/directory/while-answering.ts";
import { localFiles } from "../../../lib/io/files.ts";
import { callWith } from "../../contract/rig.ts";

const call = callWith();
const attention = { everyMs: 5, silentMs: 30 };
const never = new Promise<never>(() => {});

/** A connection whose base folder answers as `entry` does; what its parts do not need is not there. */
const spaceOn = (entry: () => Promise<"folder">): OperationContext =>
  ({
    connection: "c1",
    slots: new Semaphore(4),
    layout: new Layout("/base"),
    files: { ...localFiles, entry },
  }) as unknown as OperationContext;

/** A tool that a dead mount holds until its signal ends it. */
const stuck = ({ signal }: { readonly signal: AbortSignal }): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("killed")), { once: true }));

test("tools on a base folder that does not answer release their slots to others", async () => {
  const space = spaceOn(() => never);
  const copies = Array.from({ length: 4 }, () => whileAnswering(space, call, stuck, attention));
  const fifth = whileAnswering(space, call, async () => "done", attention);
  for (const outcome of await Promise.allSettled(copies)) {
    expect(outcome).toMatchObject({ status: "rejected", reason: { code: "unavailable" } });
    expect(outcome.status === "rejected" && outcome.reason).toBeInstanceOf(CsiError);
  }
  expect(await fifth).toBe("done");
});

test("a tool continues while its base folder answers, even with an error", async () => {
  let looks = 0;
  let finish = (_: string): void => {};
  const space = spaceOn(async () => {
    if (++looks === 12) finish("done");
    if (looks % 2 === 0) throw new Error("EIO");
    return "folder";
  });
  const work = (): Promise<string> =>
    new Promise(resolve => {
      finish = resolve;
    });
  // Twelve looks take twice as long as the silence that would end it.
  expect(await whileAnswering(space, call, work, attention)).toBe("done");
});

test("a tool ends with its call, and so does a wait for a slot", async () => {
  const ended = new AbortController();
  const space = spaceOn(async () => "folder");
  const copies = Array.from({ length: 6 }, () => whileAnswering(space, callWith(ended.signal), stuck, attention));
  ended.abort(new CsiError("unavailable", "csimux is stopping"));
  for (const outcome of await Promise.allSettled(copies)) expect(outcome.status).toBe("rejected");
  expect(space.slots.idle).toBe(true);
});
