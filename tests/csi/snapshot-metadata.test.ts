import { afterEach, expect, test } from "bun:test";
import { status } from "@grpc/grpc-js";
import { CsiError } from "../../lib/core/errors.ts";
import { leveledLog } from "../../lib/core/log.ts";
import { SnapshotMetadata } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { instrument } from "../../lib/csi/instrument.ts";
import { type SnapshotMetadataParts, snapshotMetadataService } from "../../lib/csi/snapshot-metadata.ts";
import type { BlockRange } from "../../lib/drivers/driver.ts";
import type { BlocksRequest } from "../../lib/mux/snapshots.ts";
import { type Rig, startRig, stream, until } from "./rig.ts";

const { getMetadataAllocated, getMetadataDelta } = SnapshotMetadata.method;
const capacity = 1n << 40n;

let rig: Rig | undefined;
afterEach(async () => {
  await rig?.end();
  rig = undefined;
});

/** Ranges of one byte, two apart. */
const ranges = (count: number, first = 0): readonly BlockRange[] =>
  Array.from({ length: count }, (_, at) => ({ offset: BigInt(first + 2 * at), bytes: 1n }));

/** The service over lists that `list` makes, and what was asked for and logged. */
async function served(list: (signal: AbortSignal) => AsyncIterable<readonly BlockRange[]>) {
  const asked: BlocksRequest[] = [];
  const snapshotMetadata: SnapshotMetadataParts["snapshotMetadata"] = {
    async *ranges(request, call) {
      asked.push(request);
      for await (const some of list(call.signal)) yield { capacity, ranges: some };
    },
  };
  const lines: (readonly [message: string, fields: object])[] = [];
  const log = leveledLog("info", ({ message, fields }) => void lines.push([message, fields]));
  const service = instrument(SnapshotMetadata, snapshotMetadataService({ snapshotMetadata }), { log, verbose: false });
  rig = await startRig({}, service);
  return { client: rig.client(), asked, lines };
}

/** A list of these parts. */
const of = (...parts: readonly (readonly BlockRange[])[]) =>
  async function* () {
    yield* parts;
  };

test("every message has the size of the volume and the same type, and at most max_results ranges", async () => {
  const { client, asked, lines } = await served(of([], ranges(5), ranges(2, 100)));
  const request = { snapshotId: "s:a/v@s", startingOffset: 7n, maxResults: 2 };
  const { parts, ended } = stream(client, getMetadataAllocated, request);
  expect(await ended).toEqual({ code: status.OK, details: "OK" });
  expect(asked).toEqual([{ snapshot: "s:a/v@s", base: undefined, from: 7n }]);
  expect(parts.map(part => [part.blockMetadataType, part.volumeCapacityBytes, part.blockMetadata.length])).toEqual([
    [2, capacity, 2],
    [2, capacity, 2],
    [2, capacity, 1],
    [2, capacity, 2],
  ]);
  const all = parts.flatMap(part => part.blockMetadata.map(({ byteOffset }) => Number(byteOffset)));
  expect(all).toEqual([0, 2, 4, 6, 8, 100, 102]);
  expect(lines).toEqual([
    ["answered", expect.objectContaining({ method: "GetMetadataAllocated", connection: "a", code: "ok" })],
  ]);
});

test("changes are asked for with both snapshots, and without any there is one message with the size", async () => {
  const { client, asked } = await served(of([]));
  const request = { baseSnapshotId: "s:a/v@1", targetSnapshotId: "s:a/v@2", maxResults: 100_000 };
  const { parts, ended } = stream(client, getMetadataDelta, request);
  expect((await ended).code).toBe(status.OK);
  expect(asked).toEqual([{ snapshot: "s:a/v@2", base: "s:a/v@1", from: 0n }]);
  expect(parts.map(part => [part.volumeCapacityBytes, part.blockMetadata.length])).toEqual([[capacity, 0]]);
});

test("a long part is sent in messages that every client accepts", async () => {
  const { client } = await served(of(ranges(10_000)));
  const { parts, ended } = stream(client, getMetadataAllocated, { snapshotId: "s:a/v@s", maxResults: 100_000 });
  expect((await ended).code).toBe(status.OK);
  expect(parts.map(part => part.blockMetadata.length)).toEqual([4096, 4096, 1808]);
});

const snapshotId = "s:a/v@s";
test.each([
  ["a missing snapshot", getMetadataAllocated, {}, status.INVALID_ARGUMENT],
  ["a negative offset", getMetadataAllocated, { snapshotId, startingOffset: -1n }, status.OUT_OF_RANGE],
  ["a negative number of results", getMetadataAllocated, { snapshotId, maxResults: -1 }, status.INVALID_ARGUMENT],
  ["changes without a base", getMetadataDelta, { targetSnapshotId: snapshotId }, status.INVALID_ARGUMENT],
  ["changes of nothing", getMetadataDelta, { baseSnapshotId: snapshotId }, status.INVALID_ARGUMENT],
] as const)("%s is refused before anything is asked", async (_, method, request, code) => {
  const { client, asked } = await served(of([]));
  const { parts, ended } = stream(client, method as typeof getMetadataAllocated, request as never);
  expect((await ended).code).toBe(code);
  expect([parts, asked]).toEqual([[], []]);
});

test("a failure in the middle ends the stream with its status, after what was sent", async () => {
  const { client, lines } = await served(async function* () {
    yield ranges(1);
    throw new CsiError("unavailable", "the connection was lost");
  });
  const { parts, ended } = stream(client, getMetadataAllocated, { snapshotId });
  expect(await ended).toEqual({ code: status.UNAVAILABLE, details: "the connection was lost" });
  expect(parts.length).toBe(1);
  expect(lines.map(([text]) => text)).toEqual(["failed"]);
});

test("a client that leaves ends the list, one that reads slowly delays it", async () => {
  let [made, isEnded] = [0, false];
  const { client, lines } = await served(async function* () {
    try {
      for (;;) {
        made++;
        yield ranges(4096, made * 10_000);
      }
    } finally {
      isEnded = true;
    }
  });
  const { reader } = stream(client, getMetadataAllocated, { snapshotId });
  reader.pause();
  await until(() => made > 3, "the first parts");
  let before = 0;
  // It stops once all buffers between them are full.
  await until(() => {
    const isStill = made === before;
    before = made;
    return isStill;
  }, "the list to stand still");
  expect(made).toBeLessThan(2_000);
  reader.cancel();
  await until(() => isEnded, "the end of the list");
  await until(() => lines.length > 0, "its line in the log");
  expect(lines.map(([text]) => text)).toEqual(["left by its client"]);
});
