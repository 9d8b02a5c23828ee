import { describe, expect } from "bun:test";
import { asked, until } from "../../copy/copy-world.ts";
import { testCall } from "../../fakes/memory-driver.ts";
import { codeOf, failure, snapshotOf } from "../../mux/world.ts";
import { pause } from "../../waiting.ts";
import { sides } from "../steps.ts";
import { everyStep, mostSteps } from "./copies.ts";
import { type CopySide, copyLife } from "./life.ts";
import {
  brisk,
  calm,
  content,
  listed,
  make,
  patientMs,
  type StreamPairRig,
  type StreamWorld,
  streamTest,
  told,
} from "./stream-world.ts";

const call = testCall();

/** Runs a copy in a process that dies on its method. Returns whether it did. */
async function dies(world: StreamWorld, side: CopySide, step: number, when: "before" | "after"): Promise<boolean> {
  const life = copyLife({ side, step, when });
  const process = world.opened({ times: { ...calm, answerWithin: 50 } }, life);
  for (;;) {
    const code = await codeOf(make(process));
    if (code === undefined || life.isDead()) break;
    await pause(1);
  }
  // What a process does after an answer is lost with it, too.
  await process.stop(1_000);
  return life.isDead();
}

/** A dead process has left this: no half copy is a volume, and another process finishes it, or it is forgotten. */
async function survived(world: StreamWorld, isAskedFor: boolean): Promise<void> {
  const next = world.opened({ times: calm });
  const ids = await listed(next);
  if (ids.includes("v:b/copy")) expect(await world.rig.target.read("copy")).toBe(content);
  if (isAskedFor) await world.completes(next);
  else await world.cleaned();
}

/**
 * What a source and a target of streams must survive: processes that die at their steps, streams that break, requests that end, processes that
 * hang, people that intervene. Nothing is left after it, and no half copy is ever a volume.
 */
export function streamsContract(name: string, open: () => Promise<StreamPairRig>, { every, first } = everyStep): void {
  const inPair = (title: string, work: (world: StreamWorld, rig: StreamPairRig) => Promise<void>) =>
    streamTest(open, title, work);

  describe(`streams: ${name}`, () => {
    for (const side of ["source", "target"] as const)
      for (const when of sides)
        inPair(`a process that dies ${when} a step on the ${side} is survived`, async world => {
          const before = await world.everything();
          let step = first;
          let isDead = true;
          for (let pass = 0; isDead && step < mostSteps; step += every, pass++)
            // With another request, and without; of a sample, in turn.
            for (const isAskedFor of every === 1 ? [true, false] : [pass % 2 === 0]) {
              isDead = await dies(world, side, step, when);
              await survived(world, isAskedFor);
              await world.deleted(before);
            }
          expect(step).toBeGreaterThan(5);
          expect(step).toBeLessThan(mostSteps);
        });

    inPair("a stream that breaks anywhere continues where it broke", async (world, rig) => {
      const before = await world.everything();
      for (const bytes of [0, 20, 600, 3_000, 4_300]) {
        rig.sends();
        rig.cutAfter(bytes);
        const one = world.opened({ times: brisk });
        await told(one, /last attempt failed/);
        expect(await listed(one)).not.toContain("v:b/copy");
        if (bytes === 600) await one.stop(1_000);
        const next = bytes === 600 ? world.opened() : one;
        rig.cutAfter(undefined);
        await world.completes(next);
        // Nothing but the head of a stream makes a target that a token continues.
        expect(rig.sends().some(line => line.includes(" -t "))).toBe(bytes >= 600);
        await world.deleted(before);
      }
    });

    inPair("two processes that are asked at once make one volume", async (world, rig) => {
      const before = await world.everything();
      const both = [1, 2].map(() => world.opened({ times: { ...brisk, verifyDelay: 20 } }));
      const made = await Promise.all(both.map(each => asked(() => make(each), patientMs)));
      expect(made.map(({ id }) => id)).toEqual(["v:b/copy", "v:b/copy"]);
      expect(await rig.target.read("copy")).toBe(content);
      await world.cleaned();
      await world.deleted(before);
    });

    inPair("of two processes one copies, and the other one continues if that hangs", async (world, rig) => {
      const { isHeld, release } = rig.hold();
      const wakes = Promise.withResolvers<void>();
      const life = copyLife();
      const one = world.opened({ times: brisk }, life);
      await world.begun(one, isHeld);
      const two = world.opened({ times: brisk });
      expect((await failure(make(two)))?.message).toContain("another csimux");
      expect(await codeOf(two.volumes.delete("v:b/copy", call))).toBe("aborted");
      expect(await codeOf(two.volumes.delete("v:a/source", call))).toBe("aborted");
      life.awake = () => wakes.promise;
      rig.sends();
      // The program of the hanging process still receives; the other process ends it, and continues with what it has left.
      const copying = asked(() => make(two), patientMs);
      await until(() => rig.sends().some(line => line.includes(" -t ")), patientMs);
      release();
      expect((await copying).id).toBe("v:b/copy");
      wakes.resolve();
      expect(await rig.target.read("copy")).toBe(content);
      await two.stop(1_000);
      await one.stop(1_000);
      await world.cleaned();
      expect(await rig.target.read("copy")).toBe(content);
    });

    inPair(
      "a copy that is not asked for pauses, continues when it is asked for, and is removed later",
      async (world, rig) => {
        const before = await world.everything();
        for (const isAskedFor of [true, false]) {
          const { isHeld, release } = rig.hold();
          const one = world.opened({ settings: { idleMs: 300 }, times: brisk });
          await world.begun(one, isHeld);
          await until(async () => (await world.record())?.holder === "" && !isHeld(), patientMs);
          release();
          await world.opened().copies.cleanUp(call);
          expect(await world.remains()).not.toEqual([]);
          rig.sends();
          if (isAskedFor) {
            await world.completes(world.opened());
            expect(rig.sends().some(line => line.includes(" -t "))).toBe(true);
          } else await world.cleaned();
          await world.deleted(before);
        }
      },
    );

    inPair(
      "a copy that is cancelled in its middle is gone, and its next request learns it once",
      async (world, rig) => {
        const before = await world.everything();
        const { isHeld, release } = rig.hold();
        const one = world.opened();
        await world.begun(one, isHeld);
        // A clean-up leaves what runs.
        await one.copies.cleanUp(call);
        await one.copies.command({ command: "cancel", target: "v:b/copy" }, () => {}, call.signal, call);
        release();
        await world.cancelled(one, before);
        await world.completes(one);
      },
    );

    inPair("a copy that another process cancels ends, and is gone", async (world, rig) => {
      const before = await world.everything();
      const { isHeld, release } = rig.hold();
      const one = world.opened({ times: brisk });
      await world.begun(one, isHeld);
      const two = world.opened({ times: brisk });
      await two.copies.command({ command: "cancel", target: "v:b/copy" }, () => {}, call.signal, call);
      expect(isHeld()).toBe(false);
      release();
      await world.cancelled(two, before);
    });

    inPair("a volume whose copy is deleted in its middle leaves nothing", async (world, rig) => {
      const before = await world.everything();
      const { isHeld, release } = rig.hold();
      const one = world.opened();
      await world.begun(one, isHeld);
      expect(await codeOf(one.volumes.delete("v:b/copy", call))).toBe("aborted");
      await one.stop(1_000);
      release();
      await world.deleted(before);
    });

    inPair(
      "a snapshot that is deleted in the middle of its copy is still copied, and then gone",
      async (world, rig) => {
        const before = await world.everything();
        const one = world.opened();
        const { id } = await one.snapshots.create(snapshotOf("s", "v:a/source"), call);
        await rig.source.write("source", "later");
        const { isHeld, release } = rig.hold();
        await world.begun(one, isHeld, id);
        const two = world.opened({ times: brisk });
        const deleted = await codeOf(two.snapshots.delete(id, call));
        expect(["aborted", undefined]).toContain(deleted);
        release();
        await world.completes(one, id);
        await asked(() => two.snapshots.delete(id, call), patientMs);
        await world.deleted(before);
      },
    );

    inPair(
      "a source that a person destroys in the middle of its copy is not found, and nothing is left",
      async world => {
        for (const what of ["snapshot", "volume"] as const) {
          const one = world.opened();
          const { id } =
            what === "volume" ? { id: "v:a/source" } : await one.snapshots.create(snapshotOf("s", "v:a/source"), call);
          await world.destroyed(one, what, id);
          expect(await codeOf(asked(() => make(one, id), patientMs))).toBe("not-found");
          await world.nothingLeft();
          expect(await listed(world.opened())).toEqual(what === "volume" ? [] : ["v:a/source"]);
        }
      },
    );

    inPair("a copy whose snapshot a person destroys begins again with another one", async world => {
      const one = world.opened();
      await world.destroyed(one, "protected", "v:a/source");
      await world.completes(one);
    });

    inPair(
      "a target that becomes full keeps what has arrived, says so, and continues with room",
      async (world, rig) => {
        const { isHeld, release } = rig.hold();
        const one = world.opened({ times: brisk });
        await world.begun(one, isHeld);
        rig.fill(true);
        // Forgotten before the release: the send that ends the copy may begin before there is room.
        rig.sends();
        release();
        await told(one, /out of space/);
        rig.fill(false);
        await world.completes(one);
        expect(rig.sends().some(line => line.includes(" -t "))).toBe(true);
      },
    );

    inPair("a target that is full from the beginning is refused, and nothing is left", async (world, rig) => {
      const before = await world.everything();
      rig.fill(true);
      const one = world.opened();
      expect(await codeOf(make(one))).toBe("resource-exhausted");
      rig.fill(false);
      expect(await world.everything()).toEqual(before);
    });
  });
}
