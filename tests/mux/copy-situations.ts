import { expect } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import { type CopyProcess, copyProcess, copyRequest, until } from "../copy/copy-world.ts";
import { commanded, pair } from "../copy/pair.ts";
import { CopyStorage, copyDriver, streamInMemory } from "../fakes/memory-copies.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { failure } from "./world.ts";

const call = testCall();

/** Asks once for a copy whose data does not move. */
async function copied(enabled = true, bytes = 1n): Promise<void> {
  const storages = new Map(["a", "b"].map(name => [name, new CopyStorage()]));
  let open = () => {};
  const gate = new Promise<void>(resolve => {
    open = resolve;
  });
  for (const storage of storages.values()) {
    storage.gate = () => gate;
    storage.volumes.set("v", { content: "content", bytes });
  }
  const drivers = new Map([...storages].map(([name, storage]) => [name, () => copyDriver(storage, name)]));
  const process = copyProcess({ drivers, settings: { enabled }, stream: streamInMemory(storages) });
  try {
    await process.volumes.create(copyRequest("new", "b", "v:a/v"), call);
  } finally {
    open();
    await process.stop(1_000);
  }
}

type Pair = ReturnType<typeof pair>;

function asCsiError(error: unknown): CsiError {
  if (error instanceof CsiError) return error;
  throw error;
}

/**
 * Begins a copy of "v:a/source", and asks for it again after `meanwhile`, which runs while its data does not move. Then it moves; the request
 * is repeated until it is refused for good, or tells of a failure that is repeated, with `words`.
 */
async function interrupted(source: string, meanwhile: (world: Pair, process: CopyProcess) => unknown, words: string) {
  const world = pair();
  const { process, hold, release, on } = world;
  on("a").snapshots.set("snapshot", { content: "content", bytes: 1n });
  hold();
  const one = process();
  const ask = () => one.volumes.create(copyRequest("copy", "b", source), call);
  try {
    expect((await failure(ask()))?.code).toBe("aborted");
    const done = meanwhile(world, one);
    release();
    await done;
    let last: CsiError | undefined;
    await until(async () => {
      last = await ask().then(() => undefined, asCsiError);
      return last === undefined || last.code !== "aborted" || last.message.includes(words);
    });
    expect(last?.message).toContain(words);
    if (last?.code !== "aborted") expect(world.remains()).toEqual([]);
    if (last) throw last;
  } finally {
    await one.stop(1_000);
  }
}

/** A request for a copy that cannot begin, and leaves nothing. */
async function refused(source: string, refuses?: CsiError): Promise<void> {
  const { process, on, remains } = pair();
  on("b").refuses = refuses;
  const one = process();
  try {
    await one.volumes.create(copyRequest("copy", "b", source), call);
  } finally {
    expect(remains()).toEqual([]);
    await one.stop(1_000);
  }
}

/** What a full ZFS target is reported as. */
const full = new CsiError("unavailable", "out of space; free space on the target");

/** An interruption that a repetition may heal. */
const lost = new CsiError("unavailable", "no route to host");

/** Requests for the content of another connection's volume, by their situation in lib/core/errors.md. */
export const copySituations: Readonly<Record<string, () => Promise<unknown>>> = {
  "the copy of its source is in progress": () => copied(),
  "a setting forbids to copy its source": () => copied(false),
  "its source elsewhere is larger": () => copied(true, 1n << 60n),
  "its source elsewhere does not exist": () => refused("v:a/absent"),
  "the target is too full to begin its copy": () =>
    refused("v:a/source", new CsiError("resource-exhausted", "too little space")),
  "the target became full during its copy": () =>
    interrupted(
      "v:a/source",
      ({ on }) => {
        on("b").step = what => {
          if (what === "receive") throw full;
        };
      },
      full.message,
    ),
  "the source was removed during its copy": () =>
    interrupted(
      "s:a/snapshot",
      ({ on }) => {
        on("a").held.clear();
        on("a").snapshots.clear();
        // A stream that is open already would be read to its end.
        on("b").step = what => {
          if (what !== "receive") return;
          on("b").step = () => {};
          throw lost;
        };
      },
      "does not exist",
    ),
  "its copy was cancelled": () =>
    interrupted(
      "v:a/source",
      (_, process) => commanded(process, { command: "cancel", target: "v:b/copy" }),
      "cancelled",
    ),
};
