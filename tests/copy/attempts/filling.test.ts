import { describe, expect, test } from "bun:test";
import { type CopyAttempt, copyContent } from "../../../lib/copies/copy-work.ts";
import type { CopySource, CopyTarget } from "../../../lib/drivers/copying.ts";
import { testCall } from "../../fakes/memory-driver.ts";
import { failure } from "../../mux/world.ts";

const call = testCall();

/** An attempt of a copy that fills a folder; what it does, in order. */
function filling(dirty: boolean) {
  const done: string[] = [];
  const record = { method: "restore", dirty };
  const end = (connection: string) => ({ connection, id: "c" });
  const attempt = {
    work: { source: end("a"), target: end("b") },
    snapshot: { name: "v/one" },
    lease: { record, write: async (change: object) => void done.push(JSON.stringify(change)) },
    emptyTarget: async () => void done.push("emptied"),
  } as unknown as CopyAttempt;
  const copySource = {
    fill: async (_: unknown, folder: string) => {
      await new Promise(resolve => setImmediate(resolve));
      done.push(`filled ${folder}`);
    },
  } as unknown as CopySource;
  const flush = async () => {
    await new Promise(resolve => setImmediate(resolve));
    done.push("on stable storage");
  };
  const copyTarget = { folder: async () => "/landing", flush } as unknown as CopyTarget;
  return { done, attempt, copySource, copyTarget };
}

describe("a folder that a storage fills", () => {
  test("is said to be dirty before, and is full when the attempt has ended", async () => {
    const { done, attempt, copySource, copyTarget } = filling(false);
    await copyContent(attempt, copySource, copyTarget, call);
    expect(done).toEqual(['{"dirty":true}', "filled /landing", "on stable storage"]);
  });

  test("is emptied of what an interrupted attempt has left", async () => {
    const { done, attempt, copySource, copyTarget } = filling(true);
    await copyContent(attempt, copySource, copyTarget, call);
    expect(done).toEqual(["emptied", '{"dirty":true}', "filled /landing", "on stable storage"]);
  });

  test("is not touched by an end that cannot do it any more", async () => {
    const { done, attempt, copySource, copyTarget } = filling(true);
    const { fill: _, ...unable } = copySource as { readonly fill: unknown } & CopySource;
    expect(await failure(copyContent(attempt, unable, copyTarget, call))).toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("write its snapshots into a folder"),
    });
    expect(await failure(copyContent(attempt, copySource, {} as CopyTarget, call))).toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("take files"),
    });
    expect(done).toEqual([]);
  });
});
