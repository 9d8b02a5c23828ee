import { afterAll, beforeAll, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { mountCapability } from "../../../scripts/client.ts";
import { connectionFile } from "../../../scripts/sandbox.ts";
import { codeOf, failureOf, mebibytes, status, untilDone, World } from "../world.ts";

let world: World;
beforeAll(async () => {
  world = await World.start();
});
afterAll(async () => {
  expect(await world.end()).toEqual([]);
});

const file = (name: string) => join(world.sandbox.connections, `${name}.yaml`);
const good = (name: string) => connectionFile(world.base(name), "off");

test.each([
  ["no connection parameter", {}],
  ["a path as a connection", { connection: "../x" }],
  ["a nested path", { connection: "a/b" }],
  ["a name of Object.prototype", { connection: "__proto__" }],
  ["300 characters", { connection: "x".repeat(300) }],
] as const)("CreateVolume with %s is a final INVALID_ARGUMENT", async (_, parameters) => {
  const answer = await failureOf(world.create("pvc-bad", "one", { parameters }));
  expect(answer.code).toBe(status.invalidArgument);
  expect(answer.details).not.toContain("    at ");
});

test.each(["absent", "constructor"])(
  "CreateVolume with the connection %s, which has no file since the start, is UNAVAILABLE: the volume may have been made before",
  async connection => {
    const answer = await failureOf(world.create("pvc-bad", connection));
    expect(answer.code).toBe(status.unavailable);
    expect(answer.details).toContain(`${connection}.yaml`);
  },
);

test.each([
  ["garbage", "fake-vol-id"],
  ["a snapshot handle", "s:one/x"],
  ["a handle without id", "v:one/"],
  ["a handle with a path for a connection", "v:../etc/x"],
] as const)("%s as a volume id: delete succeeds, everything else is NOT_FOUND", async (_, volumeId) => {
  expect(await codeOf(world.controller("deleteVolume", { volumeId }))).toBe("ok");
  expect(await codeOf(world.controller("controllerGetVolume", { volumeId }))).toBe(status.notFound);
  expect(await codeOf(world.controller("controllerExpandVolume", { volumeId, capacityRange: mebibytes(1) }))).toBe(
    status.notFound,
  );
  expect(
    await codeOf(world.controller("validateVolumeCapabilities", { volumeId, volumeCapabilities: [mountCapability] })),
  ).toBe(status.notFound);
  expect(await codeOf(world.controller("createSnapshot", { sourceVolumeId: volumeId, name: "s" }))).toBe(
    status.notFound,
  );
});

test("a handle whose connection has no file is UNAVAILABLE on every RPC, never gone", async () => {
  const volumeId = "v:absent/pvc-1";
  expect(await codeOf(world.controller("deleteVolume", { volumeId }))).toBe(status.unavailable);
  expect(await codeOf(world.controller("controllerGetVolume", { volumeId }))).toBe(status.unavailable);
  expect(await codeOf(world.controller("deleteSnapshot", { snapshotId: "s:absent/x" }))).toBe(status.unavailable);
  expect(await codeOf(world.controller("listSnapshots", { sourceVolumeId: volumeId }))).toBe(status.unavailable);
});

test.each([
  ["an empty file", ""],
  ["broken YAML", "driver: [local-hostpath\n  x: {"],
  ["a scalar", "just words"],
  ["an unknown driver", "driver: warp-drive\n"],
  ["a missing section", "driver: local-hostpath\n"],
  ["a half-written file", "driver: local-hostpath\nlocal-hostpath:\n  shareBase"],
] as const)(
  "%s: creation and existing handles are UNAVAILABLE, for a volume may have been made before the start",
  async (_, text) => {
    await writeFile(file("broken"), text);
    const answer = await failureOf(world.create("pvc-1", "broken"));
    expect(answer.code).toBe(status.unavailable);
    expect(answer.details).toContain("broken");
    expect(await codeOf(world.controller("deleteVolume", { volumeId: "v:broken/pvc-1" }))).toBe(status.unavailable);
    expect(await codeOf(world.controller("listVolumes", {}))).toBe("ok");
    await rm(file("broken"));
  },
);

test("good, bad, good again while a thousand calls run: no wrong answer, none lost", async () => {
  await world.create("pvc-flip");
  const calls: Promise<number | "ok">[] = [];
  for (let i = 0; i < 1000; i++) {
    if (i % 100 === 0) {
      const next = `${file("one")}.next`;
      await writeFile(next, (i / 100) % 2 === 0 ? "driver: [" : `${good("one")}# ${i}\n`);
      await rename(next, file("one"));
    }
    calls.push(codeOf(world.controller("controllerGetVolume", { volumeId: "v:one/pvc-flip" })));
    if (i % 20 === 0) await calls.at(-1);
  }
  expect(new Set(await Promise.all(calls))).toEqual(new Set(["ok"]));
  await writeFile(file("one"), good("one"));
  await world.controller("deleteVolume", { volumeId: "v:one/pvc-flip" });
});

test("fifty equal creates at once make one volume", async () => {
  const answers = await Promise.all(Array.from({ length: 50 }, () => world.create("pvc-fifty")));
  expect(new Set(answers.map(answer => answer.volume?.volumeId))).toEqual(new Set(["v:one/pvc-fifty"]));
  expect((await world.controller("listVolumes", {})).entries).toHaveLength(1);
  await world.controller("deleteVolume", { volumeId: "v:one/pvc-fifty" });
});

test("the same name with another size or source is ALREADY_EXISTS and leaves the volume alone", async () => {
  await world.create("pvc-same", "one", { capacityRange: { requiredBytes: 5n << 20n, limitBytes: 5n << 20n } });
  await world.create("pvc-other");
  const source = { type: { case: "volume" as const, value: { volumeId: "v:one/pvc-other" } } };
  expect(await codeOf(world.create("pvc-same", "one", { capacityRange: mebibytes(9) }))).toBe(status.alreadyExists);
  expect(
    await codeOf(world.create("pvc-same", "one", { capacityRange: mebibytes(5), volumeContentSource: source })),
  ).toBe(status.alreadyExists);
  expect((await world.controller("controllerGetVolume", { volumeId: "v:one/pvc-same" })).volume?.capacityBytes).toBe(
    5n << 20n,
  );
  for (const name of ["pvc-same", "pvc-other"]) await world.controller("deleteVolume", { volumeId: `v:one/${name}` });
});

test("a source on another connection is copied, an unknown one is NOT_FOUND", async () => {
  await world.create("pvc-src", "two");
  const from = (volumeId: string) => ({
    volumeContentSource: { type: { case: "volume" as const, value: { volumeId } } },
  });
  const copied = await untilDone(() => world.create("pvc-new", "one", from("v:two/pvc-src")));
  expect(copied.volume?.volumeId).toBe("v:one/pvc-new");
  for (const volumeId of ["v:one/pvc-new", "v:two/pvc-src"])
    await untilDone(() => world.controller("deleteVolume", { volumeId }));
  expect(await codeOf(world.create("pvc-new", "one", from("v:one/nothing")))).toBe(status.notFound);
  expect(await codeOf(world.create("pvc-new", "one", from("nonsense")))).toBe(status.notFound);
  expect(await world.stored("one")).toEqual([]);
  await world.controller("deleteVolume", { volumeId: "v:two/pvc-src" });
});

test("garbage on the socket and a 5 MB request do not disturb the others", async () => {
  for (let i = 0; i < 5; i++) {
    await new Promise<void>(resolve => {
      const socket = connect({ path: world.sandbox.socket });
      socket.on("error", () => {});
      socket.on("close", () => resolve());
      socket.write(randomBytes(4096), () => socket.destroy());
    });
  }
  const big = { parameters: { connection: "one", filler: "x".repeat(5 << 20) } };
  expect(await codeOf(world.create("pvc-big", "one", big))).toBe(status.resourceExhausted);
  expect((await world.probe()).ready).toBe(true);
});

test("a base folder that disappears is an error, never a deletion", async () => {
  await world.create("pvc-lost", "two");
  await rename(world.base("two"), `${world.base("two")}.away`);
  const volumeId = "v:two/pvc-lost";
  const answers = await Promise.all([
    codeOf(world.controller("deleteVolume", { volumeId })),
    codeOf(world.controller("controllerGetVolume", { volumeId })),
    codeOf(world.controller("listVolumes", {})),
    codeOf(world.create("pvc-more", "two")),
  ]);
  for (const answer of answers)
    expect([status.unavailable, status.failedPrecondition] as (number | "ok")[]).toContain(answer);
  expect((await world.probe()).ready).toBe(true);
  await rename(`${world.base("two")}.away`, world.base("two"));
  await untilDone(() => world.controller("deleteVolume", { volumeId }));
  expect(await world.stored("two")).toEqual([]);
});

test("a connection that is added while csimux runs serves at once, and one that is removed is not taken for empty", async () => {
  await writeFile(file("late"), good("one"));
  expect((await world.create("pvc-late", "late")).volume?.volumeId).toBe("v:late/pvc-late");
  await rm(file("late"));
  expect(await codeOf(world.controller("deleteVolume", { volumeId: "v:late/pvc-late" }))).toBe(status.unavailable);
  await writeFile(file("late"), good("one"));
  await world.controller("deleteVolume", { volumeId: "v:late/pvc-late" });
  await rm(file("late"));
});

test("a file that cannot be read keeps the last good connection; one that never could be is UNAVAILABLE", async () => {
  await world.create("pvc-unread");
  await rename(file("one"), `${file("one")}.away`);
  await mkdir(file("one"));
  expect((await world.create("pvc-unread")).volume?.volumeId).toBe("v:one/pvc-unread");
  expect(await codeOf(world.controller("deleteVolume", { volumeId: "v:one/pvc-unread" }))).toBe("ok");
  await rm(file("one"), { recursive: true });
  await rename(`${file("one")}.away`, file("one"));
  await mkdir(file("folder"));
  expect(await codeOf(world.create("pvc-1", "folder"))).toBe(status.unavailable);
  expect(await codeOf(world.controller("deleteVolume", { volumeId: "v:folder/pvc-1" }))).toBe(status.unavailable);
  await rm(file("folder"), { recursive: true });
});
