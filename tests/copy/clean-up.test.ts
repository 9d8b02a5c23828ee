import { describe, expect, test } from "bun:test";
import { CleanUp } from "../../lib/copies/cleanup.ts";
import type { UseDriver } from "../../lib/copies/copy-work.ts";
import { seconds } from "../../lib/copies/lease.ts";
import { RunningCopies } from "../../lib/copies/running-copies.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { usualCopies } from "../../lib/core/proxy.ts";
import { codeOf } from "../mux/world.ts";
import { asked, until } from "./copy-world.ts";
import { abandoned, call, content, make, pair } from "./pair.ts";

describe("what was abandoned", () => {
  /** An abandoned copy, and the clean-up of a process for which connection "a" hangs until `wake`. */
  async function hanging(limitMs?: number) {
    const world = await abandoned();
    const two = world.process();
    const asked: string[] = [];
    const { promise: hung, resolve: wake } = Promise.withResolvers<undefined>();
    const use: UseDriver = async (name, work) => {
      asked.push(name);
      if (name === "a") await hung;
      return two.connections.use(name, "retry", ({ driver }) => work(driver));
    };
    const names = () => two.connections.names();
    const parts = { use, stream: async () => ({ basic: false }), settings: () => usualCopies, log: call.log };
    const copies = new RunningCopies(parts);
    return { ...world, two, asked, wake, cleanUp: new CleanUp({ copies, use, names, ...(limitMs && { limitMs }) }) };
  }

  test("is removed although another connection hangs, which is not asked again meanwhile", async () => {
    const { two, asked, cleanUp, onTarget } = await hanging(100);
    await cleanUp.run(call);
    expect(onTarget()).toEqual([]);
    await cleanUp.run(call);
    // Once for its targets, and once when the removed target gave its source free.
    expect(asked.filter(name => name === "a").length).toBeLessThanOrEqual(2);
    await two.stop(1_000);
  });

  test("is removed before another connection has answered at all", async () => {
    const { two, wake, cleanUp, onTarget, remains } = await hanging();
    const cleaning = cleanUp.run(call);
    await until(() => onTarget().length === 0, 2_000);
    wake(undefined);
    await cleaning;
    expect(remains()).toEqual([]);
    await two.stop(1_000);
  });

  test("is removed although the driver of another connection has a defect", async () => {
    const { changed, remains } = await abandoned();
    const defect = async () => {
      throw new TypeError("undefined is not a function");
    };
    const two = changed("a", (_, copyTarget) => ({ copyTarget: { ...copyTarget, copies: defect } }));
    await two.copies.cleanUp(call);
    expect(remains()).toEqual([]);
    await two.stop(1_000);
  });

  test("is not looked for on a connection that is known to be unreachable", async () => {
    let asked = 0;
    const fail = async () => {
      throw new CsiError("unavailable", "no route to host");
    };
    const copies = () => {
      asked++;
      return fail();
    };
    const one = pair().changed("a", ({ copySource }, copyTarget) => ({
      ...{ check: fail, copyTarget: { ...copyTarget, copies } },
      ...(copySource && { copySource: { ...copySource, protectedSnapshots: fail } }),
    }));
    await until(async () => {
      await one.copies.cleanUp(call);
      return one.connections.record("a")?.outage !== undefined;
    });
    const before = asked;
    await one.copies.cleanUp(call);
    expect(asked).toBe(before);
    await one.stop(1_000);
  });

  test("does not go: a target that a request takes up after it was listed", async () => {
    const { changed, onTarget, on } = await abandoned();
    const { promise: noting, resolve: note } = Promise.withResolvers<undefined>();
    let isFirst = true;
    const two = changed("b", (_, whole) => ({
      copyTarget: {
        ...whole,
        find: async (...given) => {
          const found = await whole.find(...given);
          if (!isFirst) return found;
          isFirst = false;
          // Its first note, by which other processes know the holder, has not arrived yet.
          expect(await codeOf(make(two))).toBe("aborted");
          return found;
        },
        note: async (...given) => {
          await noting;
          await whole.note(...given);
        },
      },
    }));
    await two.copies.cleanUp(call);
    expect(onTarget()).toEqual(["record copy", "target copy"]);
    note(undefined);
    expect((await asked(() => make(two))).id).toBe("v:b/copy");
    expect(on("b").volumes.get("copy")?.content).toBe(content);
    await two.stop(1_000);
  });

  test("does not go: a target that another process takes up after it was listed", async () => {
    const { changed, process, hold, reached, release, onTarget } = await abandoned();
    hold();
    const other = process();
    const two = changed("b", (_, whole) => ({
      copyTarget: {
        ...whole,
        copies: async own => {
          const listed = await whole.copies(own);
          expect(await codeOf(make(other))).toBe("aborted");
          await reached();
          return listed;
        },
      },
    }));
    await two.copies.cleanUp(call);
    expect(onTarget()).toEqual(["record copy", "target copy"]);
    release();
    expect((await asked(() => make(other))).id).toBe("v:b/copy");
    await Promise.all([two.stop(1_000), other.stop(1_000)]);
  });

  test("does not go: the snapshot for a target whose driver takes no copies any more", async () => {
    const { changed, on, remains } = await abandoned();
    const held = on("a").held.get("v:b/copy")?.get(0);
    if (held) on("a").held.set("v:b/copy", new Map([[0, { ...held, since: seconds() - 73 * 3_600 }]]));
    const two = changed("b", () => ({ copyTarget: undefined }));
    await two.copies.cleanUp(call);
    expect(remains()).toEqual(["snapshot v:b/copy", "record copy", "target copy"]);
    await two.stop(1_000);
  });
});
