import { describe, expect, test } from "bun:test";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, createRouterTransport, type Interceptor } from "@connectrpc/connect";
import { CsiError } from "../../lib/core/errors.ts";
import { leveledLog } from "../../lib/core/log.ts";
import type { CallBegun, CallEnd, CallObserver } from "../../lib/core/observer.ts";
import { keepSecret } from "../../lib/core/secrets.ts";
import { controllerService } from "../../lib/csi/controller.ts";
import {
  Controller,
  type CreateVolumeRequestSchema,
  VolumeCapability_AccessMode_Mode,
} from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { instrument } from "../../lib/csi/instrument.ts";
import { toConnectError } from "../../lib/csi/status.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { muxWorld } from "../mux/world.ts";

/** Failures as the server's own adapter gives them away. */
const translated: Interceptor = next => async request => {
  try {
    return await next(request);
  } catch (error) {
    throw toConnectError(error);
  }
};

/** The Controller service over storages in memory, called through Connect's transport in memory: all but the socket. */
function world(names: readonly string[], log = testCall().log) {
  const mux = muxWorld(names);
  const ends: (CallBegun & CallEnd)[] = [];
  const calls: CallObserver = begun => end => void ends.push({ ...begun, ...end });
  const observation = { log: { ...log, with: () => log }, verbose: false, calls };
  const service = instrument(
    Controller,
    controllerService({ ...mux, version: [1, 13], modifies: async () => true, tellsHealth: async () => true }),
    observation,
  );
  const transport = createRouterTransport(({ service: add }) => add(Controller, service), {
    router: { interceptors: [translated] },
  });
  return { mux, ends, client: createClient(Controller, transport) };
}

const writer = {
  accessType: { case: "mount", value: {} },
  accessMode: { mode: VolumeCapability_AccessMode_Mode.SINGLE_NODE_WRITER },
} as const;

const wanted = (name: string, connection = "c") => ({
  name,
  volumeCapabilities: [writer],
  capacityRange: { requiredBytes: 1n << 20n },
  parameters: { connection },
});

const codeOf = (work: Promise<unknown>): Promise<Code | undefined> =>
  work.then(
    () => undefined,
    (error: unknown) => ConnectError.from(error).code,
  );

describe("the Controller service", () => {
  test("creates, reads, lists and deletes a volume under its handle", async () => {
    const { client } = world(["c"]);
    const { volume } = await client.createVolume(wanted("pvc-1"));
    expect(volume).toMatchObject({ volumeId: "v:c/pvc-1", capacityBytes: 1n << 20n });
    expect((await client.controllerGetVolume({ volumeId: "v:c/pvc-1" })).volume?.volumeId).toBe("v:c/pvc-1");
    const { entries } = await client.listVolumes({});
    expect(entries.map(entry => entry.volume?.volumeId)).toEqual(["v:c/pvc-1"]);
    await client.deleteVolume({ volumeId: "v:c/pvc-1" });
    expect((await client.listVolumes({})).entries).toEqual([]);
  });

  test("reports each call to an observer: its object and its outcome, without secrets of the request", async () => {
    const { client, mux, ends } = world(["c"]);
    await client.createVolume(wanted("pvc-1"));
    mux.memory("c").fail.create = new CsiError("unavailable", "login with hunter2 refused");
    await codeOf(client.createVolume({ ...wanted("pvc-2"), secrets: { password: "hunter2" } }));
    await codeOf(client.deleteVolume({ volumeId: "v:gone/pvc-3" }));
    expect(ends.map(({ method, connection, object, code }) => [method, connection, object, code])).toEqual([
      ["CreateVolume", "c", "pvc-1", "ok"],
      ["CreateVolume", "c", "pvc-2", "unavailable"],
      ["DeleteVolume", "gone", "v:gone/pvc-3", "unavailable"],
    ]);
    expect(ends[1]?.message).toContain("login with *** refused");
  });

  test("shows no caller a secret of a connection that its storage repeats, because events are for everyone", async () => {
    const { client, mux } = world(["c"]);
    const forget = keepSecret(["s3cret-of-the-nas"]);
    try {
      mux.memory("c").fail.create = new CsiError("unavailable", "login admin:s3cret-of-the-nas refused");
      await expect(client.createVolume(wanted("pvc-1"))).rejects.toThrow("login admin:*** refused");
    } finally {
      forget();
    }
  });

  test("takes a snapshot, and makes a volume from it that names its source", async () => {
    const { client } = world(["c"]);
    await client.createVolume(wanted("pvc-1"));
    const { snapshot } = await client.createSnapshot({ name: "snap", sourceVolumeId: "v:c/pvc-1" });
    expect(snapshot).toMatchObject({ snapshotId: "s:c/snap", sourceVolumeId: "v:c/pvc-1", readyToUse: true });
    const source = { type: { case: "snapshot", value: { snapshotId: "s:c/snap" } } } as const;
    const { volume } = await client.createVolume({ ...wanted("restored"), volumeContentSource: source });
    expect(volume?.contentSource?.type).toMatchObject({ case: "snapshot", value: { snapshotId: "s:c/snap" } });
  });

  test.each<readonly [string, MessageInitShape<typeof CreateVolumeRequestSchema>]>([
    ["no name", { ...wanted("x"), name: "" }],
    ["no capability", { ...wanted("x"), volumeCapabilities: [] }],
    ["a capability without access mode", { ...wanted("x"), volumeCapabilities: [{ accessType: writer.accessType }] }],
    ["no connection", { ...wanted("x"), parameters: {} }],
  ])("refuses a creation with %s as an invalid argument", async (_, request) => {
    expect(await codeOf(world(["c"]).client.createVolume(request))).toBe(Code.InvalidArgument);
  });

  test("changes the properties of a volume, also where external-resizer adds the names of claim and volume", async () => {
    const { client } = world(["c"]);
    await client.createVolume(wanted("pvc-1"));
    const named = { "csi.storage.k8s.io/pvc/name": "a", "csi.storage.k8s.io/pvc/namespace": "b" };
    const modify = (mutableParameters: Record<string, string>) =>
      codeOf(client.controllerModifyVolume({ volumeId: "v:c/pvc-1", mutableParameters }));
    expect(await modify({ speed: "slow", ...named, "csi.storage.k8s.io/pv/name": "pvc-1" })).toBeUndefined();
    expect(await modify({ colour: "red", ...named })).toBe(Code.InvalidArgument);
  });

  test("answers a foreign id as the specification says: nothing to read, nothing to delete", async () => {
    const { client } = world(["c"]);
    expect(await codeOf(client.controllerGetVolume({ volumeId: "foreign" }))).toBe(Code.NotFound);
    expect(await codeOf(client.deleteVolume({ volumeId: "foreign" }))).toBeUndefined();
    expect(await codeOf(client.deleteSnapshot({ snapshotId: "foreign" }))).toBeUndefined();
  });

  test("answers UNIMPLEMENTED for what no connection could ever serve", async () => {
    expect(await codeOf(world(["c"]).client.controllerPublishVolume({ volumeId: "v:c/a", nodeId: "n" }))).toBe(
      Code.Unimplemented,
    );
  });

  test("leaves impossible values of one object out of a listing, keeps all other objects and logs the problem once", async () => {
    const lines: string[] = [];
    const { mux, client } = world(["c", "d"], { ...testCall().log, warn: line => void lines.push(line) });
    const volume = (bytes: bigint) => ({ id: "x", bytes, context: {}, source: undefined });
    const sizes = { fine: 7n, most: 2n ** 63n - 1n, huge: 2n ** 63n, vast: 1n << 80n, negative: -1n };
    const items = Object.entries(sizes).map(([id, bytes]) => ({ ...volume(bytes), id }));
    const listed = [
      { id: "never", volumeId: "v", bytes: 2n ** 63n, createdAt: new Date(Number.NaN), ready: true },
      { id: "late", volumeId: "v", bytes: 7n, createdAt: new Date(8.64e15), ready: true },
      { id: "fine", volumeId: "v", bytes: 7n, createdAt: new Date(5_000), ready: true },
    ];
    const driver = mux.memory("d").driver();
    mux.traits.set("d", {
      driver: {
        ...driver,
        inventory: { list: async () => ({ items, next: undefined }) },
        expand: { expand: async () => ({ bytes: 2n ** 63n, onNode: false }) },
        capacity: { available: async () => 2n ** 63n },
        snapshots: driver.snapshots && { ...driver.snapshots, list: async () => ({ items: listed, next: undefined }) },
      },
    });
    await client.createVolume(wanted("v"));
    for (let round = 0; round < 3; round++) {
      const { entries } = await client.listVolumes({});
      expect(entries.map(({ volume: each }) => [each?.volumeId, each?.capacityBytes])).toEqual([
        ["v:c/v", 1n << 20n],
        ["v:d/fine", 7n],
        ["v:d/most", 2n ** 63n - 1n],
        ["v:d/huge", 0n],
        ["v:d/vast", 0n],
        ["v:d/negative", 0n],
      ]);
      const { entries: snapshots } = await client.listSnapshots({});
      expect(
        snapshots.map(({ snapshot: each }) => [each?.snapshotId, each?.sizeBytes, each?.creationTime?.seconds]),
      ).toEqual([
        ["s:d/never", 0n, 0n],
        ["s:d/late", 7n, 0n],
        ["s:d/fine", 7n, 5n],
      ]);
    }
    expect(lines.filter(line => line.includes("impossible")).map(line => /"(.*?)"/.exec(line)?.[1])).toEqual([
      "v:d/huge",
      "v:d/vast",
      "v:d/negative",
      "s:d/never",
      "s:d/never",
      "s:d/late",
    ]);
    const grown = { volumeId: "v:d/x", capacityRange: { requiredBytes: 3n << 20n } };
    expect((await client.controllerExpandVolume(grown)).capacityBytes).toBe(3n << 20n);
    expect((await client.getCapacity({ parameters: { connection: "d" } })).availableCapacity).toBe(2n ** 53n - 1n);
  });
});

test("work that continues is logged as in progress and not as a failure", async () => {
  const lines: string[] = [];
  const log = leveledLog("info", ({ level, message }) => void lines.push(`${level}: ${message}`));
  const answer = (code: "aborted" | "unavailable") => ({
    deleteVolume: () => Promise.reject(new CsiError(code, "copying, 12 GiB of 40 GiB")),
  });
  for (const code of ["aborted", "unavailable"] as const) {
    const service = instrument(Controller, answer(code), { log, verbose: false });
    const transport = createRouterTransport(({ service: add }) => add(Controller, service), {
      router: { interceptors: [translated] },
    });
    expect(await codeOf(createClient(Controller, transport).deleteVolume({ volumeId: "v:a/b" }))).toBe(
      code === "aborted" ? Code.Aborted : Code.Unavailable,
    );
  }
  expect(lines).toEqual(["info: in progress", "warn: failed"]);
});
