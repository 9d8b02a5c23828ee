import { expect, test } from "bun:test";
import { asked, until } from "../../copy/copy-world.ts";
import { call, content, make, type Process, pair } from "../../copy/pair.ts";
import { copyDriver } from "../../fakes/memory-copies.ts";
import { failure } from "../../mux/world.ts";
import { stepped } from "./second-writer.ts";

const others: readonly (readonly [string, (two: Process) => Promise<unknown>])[] = [
  ["makes the same copy", two => make(two)],
  ["deletes the volume", two => two.volumes.delete("v:b/copy", call)],
  ["deletes the source", two => two.volumes.delete("v:a/source", call)],
  ["removes what is left", two => two.copies.cleanUp(call)],
  // Its client does not wait until a copy that runs has read the cancellation.
  [
    "cancels",
    two => two.copies.command({ command: "cancel", target: "v:b/copy" }, () => {}, AbortSignal.timeout(50), call),
  ],
];

test.each(others)(
  "a second controller %s between any two steps of a copy: one volume with its content, or nothing, and no remains",
  async (_, work) => {
    for (let at = 0, isReached = true; isReached; at++) {
      const { on, process, remains } = pair();
      const two = process();
      let step = 0;
      isReached = false;
      const before = async () => {
        if (step++ !== at) return;
        isReached = true;
        await failure(work(two));
      };
      const drivers = new Map(["a", "b", "c"].map(name => [name, () => stepped(copyDriver(on(name), name), before)]));
      const one = process({ drivers });
      const refused = await failure(asked(() => make(one), 10_000));
      expect([at, refused?.code ?? "ok"]).toEqual([at, expect.stringMatching(/^(ok|failed-precondition|not-found)$/)]);
      if (on("a").volumes.has("source")) {
        expect((await asked(() => make(two), 10_000)).id).toBe("v:b/copy");
        expect([at, on("b").volumes.get("copy")?.content]).toEqual([at, content]);
      }
      await asked(() => one.volumes.delete("v:b/copy", call), 10_000);
      // The snapshot of an attempt that came too late is the hourly clean-up's.
      const { copies } = process({ settings: { keepSeconds: -1 } });
      await until(async () => {
        await copies.cleanUp(call);
        return remains().length === 0;
      }, 5_000).catch(() => {});
      expect([at, remains(), on("b").volumes.has("copy")]).toEqual([at, [], false]);
      await Promise.all([one.stop(1_000), two.stop(1_000)]);
    }
  },
);
