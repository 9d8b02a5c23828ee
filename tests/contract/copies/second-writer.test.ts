import { expect, test } from "bun:test";
import { asked, until } from "../../copy/copy-world.ts";
import { abandoned, call, content, make, type Process, pair } from "../../copy/pair.ts";
import { copyDriver } from "../../fakes/memory-copies.ts";
import { failure } from "../../mux/world.ts";
import { stepped } from "./second-writer.ts";

type Act = (process: Process) => Promise<unknown>;

// Its client does not wait until a copy that runs has read the cancellation.
const cancel: Act = each =>
  each.copies.command({ command: "cancel", target: "v:b/copy" }, () => {}, AbortSignal.timeout(50), call);
const cleanUp: Act = each => each.copies.cleanUp(call);
const deleteVolume: Act = each => each.volumes.delete("v:b/copy", call);

/** What the first one does, and with what: nothing, or a copy that was interrupted and is forgotten by its claim. */
const firsts = [
  ["makes a copy", make, pair],
  ["cleans up", cleanUp, abandoned],
  ["deletes the volume", deleteVolume, abandoned],
  ["cancels", cancel, abandoned],
] as const;

/** What another process does between two of its steps. */
const seconds: readonly (readonly [string, Act])[] = [
  ["makes the same copy", each => make(each)],
  ["deletes the volume", deleteVolume],
  ["deletes the source", each => each.volumes.delete("v:a/source", call)],
  ["cleans up", cleanUp],
  ["cancels", cancel],
];

const meetings = firsts.flatMap(([first, act, begin]) =>
  seconds.map(([second, work]) => [second, first, work, act, begin] as const),
);

test.each(meetings)(
  "a second controller %s between any two steps of one that %s: one volume with its content, or nothing, and no remains",
  async (_, __, work, act, begin) => {
    for (let at = 0, isReached = true; isReached; at++) {
      const { on, process, remains } = await begin();
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
      const refused = await failure(asked(async () => act(one), 10_000));
      expect([at, refused?.code ?? "ok"]).toEqual([at, expect.stringMatching(/^(ok|failed-precondition|not-found)$/)]);
      if (on("a").volumes.has("source")) {
        // A cancelled copy refuses the next request, and not the one after that.
        await failure(asked(() => make(two), 10_000));
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
