import { expect, test } from "bun:test";
import { copyByStream } from "../../../lib/copies/zfs-send.ts";
import type { ReceivedState, SourceSnapshot, StreamEnd } from "../../../lib/drivers/copying.ts";
import { testCall } from "../../fakes/memory-driver.ts";
import { failure } from "../../mux/world.ts";

const call = testCall();
const snapshot: SourceSnapshot = {
  ...{ name: "tank/v@2", proof: "22", bytes: 1n, toSend: 1n, stable: true },
  traits: { blockBytes: 0n, fixed: {} },
};
const earlier = { name: "tank/v@1", proof: "11" };
const opened = "opened";

/** Begins a stream to a target in these states, one after the other, and says how, with what else was done to the target. */
async function begun(states: readonly ReceivedState[], after: typeof earlier | undefined) {
  const left = [...states];
  const done: string[] = [];
  const ends = { format: "zfs:filesystem", machine: "one" } as const;
  const source = {
    ...ends,
    open: (_: SourceSnapshot, start: { readonly kind: string }): StreamEnd => {
      done.push(start.kind);
      return { host: undefined, argv: ["zfs"] } as unknown as StreamEnd;
    },
    isTokenOf: async (token: string) => token === "own",
  };
  const target = {
    ...ends,
    state: async (): Promise<ReceivedState> => left.shift() ?? { kind: "nothing" },
    open: (_: string, __: SourceSnapshot, isLater: boolean): StreamEnd => {
      done.push(isLater ? "into what an earlier round made" : "into nothing");
      throw new Error(opened);
    },
    stop: async () => void done.push("stop"),
    discard: async () => void done.push("discard"),
  };
  const work = { ...{ source, target, id: "c", snapshot, earlier: after }, method: "zfs-send", basic: false } as const;
  const error = await copyByStream({ ...work, simplified: async () => {}, progress: () => {} }, call).catch(
    (reason: unknown) => reason,
  );
  expect(error).toMatchObject({ message: opened });
  return done;
}

const part: ReceivedState = { kind: "partial", token: "own", proof: snapshot.proof };

// A receive into what an earlier round made rolls back to it (zfs-receive(8), -F); into nothing it must not.
test.each<[string, readonly ReceivedState[], typeof earlier | undefined, readonly string[]]>([
  ["an empty target", [{ kind: "nothing" }], undefined, ["whole", "into nothing"]],
  ["a part of the first round", [part], undefined, ["token", "into nothing"]],
  [
    "the snapshot of the round before",
    [{ kind: "whole", proof: "11" }],
    earlier,
    ["since", "into what an earlier round made"],
  ],
  ["a part of a later round", [part], earlier, ["token", "into what an earlier round made"]],
  [
    "a part of something else",
    [{ ...part, token: "theirs" }, { kind: "nothing" }],
    undefined,
    ["discard", "whole", "into nothing"],
  ],
  [
    "a part of another snapshot",
    [{ ...part, proof: "33" }, { kind: "nothing" }],
    undefined,
    ["discard", "whole", "into nothing"],
  ],
  [
    "a program that still receives",
    [{ kind: "busy" }, { kind: "nothing" }],
    undefined,
    ["stop", "whole", "into nothing"],
  ],
])("a stream to %s starts where it may", async (_, states, after, expected) => {
  expect(await begun(states, after)).toEqual([...expected]);
});

test("a target that holds another snapshot is not written to", async () => {
  const target = { state: async () => ({ kind: "whole", proof: "33" }) as const };
  const ends = { format: "zfs:filesystem", machine: "one" } as const;
  const never = () => {
    throw new Error("it was opened");
  };
  const work = {
    source: { ...ends, open: never, isTokenOf: async () => true },
    target: { ...ends, ...target, open: never, stop: async () => {}, discard: async () => {} },
    ...({ id: "c", snapshot, earlier, method: "zfs-send", basic: false } as const),
    simplified: async () => {},
    progress: () => {},
  };
  expect(await failure(copyByStream(work, call))).toMatchObject({
    code: "failed-precondition",
    message: expect.stringContaining("holds a snapshot that is not of this copy"),
  });
});
