import { afterEach, describe, expect, test } from "bun:test";
import { status } from "@grpc/grpc-js";
import { CsiError } from "../../lib/core/errors.ts";
import { SnapshotMetadata } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { passing, pause } from "../waiting.ts";
import { type Rig, startRig, stream, until } from "./rig.ts";

const { getMetadataAllocated, getMetadataDelta } = SnapshotMetadata.method;

let rig: Rig | undefined;
afterEach(async () => {
  await rig?.end();
  rig = undefined;
});

const block = (byteOffset: bigint, count = 1) => ({
  blockMetadata: Array.from({ length: count }, () => ({ byteOffset, sizeBytes: 1n << 60n })),
});

describe("a server stream", () => {
  test("delivers its parts in order, 64-bit numbers exact", async () => {
    rig = await startRig(
      {},
      {
        async *getMetadataAllocated({ startingOffset }) {
          for (let at = startingOffset; at < startingOffset + 3n; at++) yield block(at);
        },
      },
    );
    const start = (1n << 53n) + 1n;
    const { parts, ended } = stream(rig.client(), getMetadataAllocated, { startingOffset: start });
    expect(await ended).toEqual({ code: status.OK, details: "OK" });
    expect(parts.map(part => part.blockMetadata[0]?.byteOffset)).toEqual([start, start + 1n, start + 2n]);
    expect(parts[0]?.blockMetadata[0]?.sizeBytes).toBe(1n << 60n);
    expect(rig.server.inFlight).toBe(0);
  });

  test("that fails after some parts delivers them and the status", async () => {
    rig = await startRig(
      {},
      {
        async *getMetadataAllocated() {
          yield block(1n);
          throw new CsiError("out-of-range", "offset beyond the end");
        },
      },
    );
    const { parts, ended } = stream(rig.client(), getMetadataAllocated, {});
    expect(await ended).toEqual({ code: status.OUT_OF_RANGE, details: "offset beyond the end" });
    expect(parts).toHaveLength(1);
  });

  test("without handler gets UNIMPLEMENTED with its name", async () => {
    rig = await startRig({}, {});
    const { ended } = stream(rig.client(), getMetadataDelta, {});
    expect(await ended).toEqual({
      code: status.UNIMPLEMENTED,
      details: "csi.v1.SnapshotMetadata.GetMetadataDelta is not implemented",
    });
  });

  test("waits for a client that does not read, and delivers all to one that reads late", async () => {
    let produced = 0;
    rig = await startRig(
      {},
      {
        async *getMetadataAllocated() {
          for (; produced < 300; produced++) yield block(BigInt(produced), 1000);
        },
      },
    );
    const { server } = rig;
    const { reader, parts, ended } = stream(rig.client(), getMetadataAllocated, {});
    reader.pause();
    let before = -1;
    await until(() => {
      const still = produced > 0 && produced === before;
      before = produced;
      return still;
    }, "the stream to pause");
    expect(produced).toBeLessThan(300);
    expect(server.inFlight).toBe(1);
    reader.resume();
    expect((await ended).code).toBe(status.OK);
    expect(parts).toHaveLength(300);
  });

  test("whose client cancels ends its generator", async () => {
    let left = false;
    rig = await startRig(
      {},
      {
        async *getMetadataAllocated() {
          try {
            for (let at = 0n; ; at++) {
              yield block(at, 100);
              await pause(1);
            }
          } finally {
            left = true;
          }
        },
      },
    );
    const { server } = rig;
    const { reader, parts, ended } = stream(rig.client(), getMetadataAllocated, {});
    await until(() => parts.length > 2, "some parts");
    reader.cancel();
    expect((await ended).code).toBe(status.CANCELLED);
    await until(() => left && server.inFlight === 0, "the generator to end");
    expect(left).toBe(true);
  });

  test("whose client cancels while the server waits for it ends its generator", async () => {
    let left = false;
    rig = await startRig(
      {},
      {
        async *getMetadataAllocated() {
          try {
            for (let at = 0n; ; at++) yield block(at, 1000);
          } finally {
            left = true;
          }
        },
      },
    );
    const { server } = rig;
    const { reader, parts, ended } = stream(rig.client(), getMetadataAllocated, {});
    await until(() => parts.length > 0, "the first part");
    reader.pause();
    // The server continues until the buffers are full.
    await passing(20);
    reader.cancel();
    await ended;
    await until(() => left && server.inFlight === 0, "the generator to end");
    expect(left).toBe(true);
  });
});
