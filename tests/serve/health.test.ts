import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { VolumeHealthErrorType } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { askStatus, statusSocketOf } from "../../lib/observe/status-socket.ts";
import { build } from "../../scripts/build.ts";
import { mountCapability } from "../../scripts/client.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox, type Sandbox } from "../../scripts/sandbox.ts";
import { pause } from "../waiting.ts";
import { codeOf, failureOf, status, World } from "./world.ts";

let world: World;
let sandbox: Sandbox;
const begin = async (...more: readonly string[]): Promise<void> => {
  sandbox = await makeSandbox("off");
  const flags = ["--health-interval=0.2", ...more];
  world = await World.on(sandbox, async () => startDaemon({ command: [await build()], sandbox, flags }));
};
afterEach(async () => {
  expect(await world.end()).toEqual([]);
});

/** Looks until what is seen is this; half a minute at most. */
async function until<T>(look: () => Promise<T | undefined>, wanted: T): Promise<void> {
  const end = Date.now() + 30_000;
  for (;;) {
    const seen = await look();
    if (JSON.stringify(seen) === JSON.stringify(wanted)) return;
    if (Date.now() > end) throw new Error(`it is ${JSON.stringify(seen)}, not ${JSON.stringify(wanted)}`);
    await pause(50);
  }
}

async function made(
  name: string,
): Promise<{ readonly id: string; readonly folder: string; readonly context: Record<string, string> }> {
  const { volume } = await world.create(name);
  return {
    id: volume?.volumeId ?? "",
    folder: join(world.base("one"), "v", name),
    context: volume?.volumeContext ?? {},
  };
}

const listed = async (): Promise<readonly string[]> =>
  (await world.controller("controllerListVolumeHealth", {})).entries.flatMap(({ volumeId, healthStatuses }) =>
    healthStatuses.map(({ reason, status }) => `${volumeId} ${VolumeHealthErrorType[status]} ${reason}`),
  );

describe("CSI 1.13", () => {
  beforeEach(() => begin());

  test("a volume without its folder is reported as lost by every call, and as healthy when the folder is back", async () => {
    const { id, folder } = await made("pvc-1");
    await made("pvc-2");
    const got = async () =>
      (await world.controller("controllerGetVolumeHealth", { volumeId: id })).volumeHealth?.healthStatuses.map(
        ({ reason }) => reason,
      );
    await until(listed, []);
    expect(await got()).toEqual([]);
    await rename(folder, `${folder}.away`);
    await until(listed, [`${id} DATA_LOSS VolumeMissing`]);
    expect(await got()).toEqual(["VolumeMissing"]);
    const seen = async () =>
      (await askStatus(statusSocketOf(sandbox.socket), 5_000)).health.map(
        ({ volume, reason, seenBy }) => `${seenBy} ${volume} ${reason}`,
      );
    expect(await seen()).toEqual([`controller ${id} VolumeMissing`]);
    await rename(`${folder}.away`, folder);
    await until(listed, []);
    expect(await seen()).toEqual([]);
    const lines = (await world.daemon.log()).split("\n").filter(line => line.includes("VolumeMissing"));
    expect(lines.map(line => JSON.parse(line).message)).toEqual(["a volume is lost", "a volume is no longer lost"]);
  });

  test("a missing volume is not found, and a storage that cannot be inspected is an error", async () => {
    expect(await codeOf(world.controller("controllerGetVolumeHealth", { volumeId: "v:one/none" }))).toBe(
      status.notFound,
    );
    expect(await codeOf(world.controller("controllerGetVolumeHealth", {}))).toBe(status.invalidArgument);
    expect(await codeOf(world.controller("controllerListVolumeHealth", { startingToken: "x" }))).toBe(status.aborted);
    const { id } = await made("pvc-1");
    await rm(world.base("one"), { recursive: true });
    const asked = () => codeOf(world.controller("controllerGetVolumeHealth", { volumeId: id }));
    await until<number | "ok">(asked, status.unavailable);
    await until<number | "ok">(() => codeOf(world.controller("controllerListVolumeHealth", {})), status.unavailable);
    expect((await failureOf(world.controller("controllerListVolumeHealth", {}))).details).toContain('"one"');
    await mkdir(world.base("one"));
  });

  test.skipIf(process.getuid?.() !== 0)("a node tells of a folder that was removed under a mount", async () => {
    const { id, folder, context } = await made("pvc-1");
    const stagingTargetPath = join(sandbox.folder, "staging");
    const stage = { volumeId: id, stagingTargetPath, volumeCapability: mountCapability, volumeContext: context };
    await world.node("nodeStageVolume", stage);
    const health = async () =>
      (await world.node("nodeGetVolumeHealth", { volumeId: id })).volumeHealth?.healthStatuses.map(
        ({ reason }) => reason,
      );
    expect(await health()).toEqual([]);
    await rm(folder, { recursive: true });
    await until(health, ["FolderRemoved"]);
    expect((await world.node("nodeGetStorageHealth", {})).backendHealth).toEqual([]);
    await world.node("nodeUnstageVolume", { volumeId: id, stagingTargetPath });
    expect(await codeOf(world.node("nodeGetVolumeHealth", { volumeId: id }))).toBe(status.notFound);
  });
});

test("up to CSI 1.12 the same is reported as the condition of a volume", async () => {
  await begin("--csi-version=1.12.0");
  const { id } = await made("pvc-1");
  await made("pvc-2");
  const snapshot = await world.controller("createSnapshot", { name: "snap", sourceVolumeId: id });
  const conditions = async () => {
    const { entries } = await world.controller("listVolumes", {});
    return entries.map(({ volume, status: each }) => `${volume?.volumeId} ${each?.volumeCondition?.message}`);
  };
  await until(conditions, [`${id} `, "v:one/pvc-2 "]);
  await rm(join(world.base("one"), "s", "_snap"), { recursive: true });
  const abnormal = async () =>
    (await world.controller("controllerGetVolume", { volumeId: id })).status?.volumeCondition?.abnormal;
  await until(abnormal, true);
  expect((await conditions())[0]).toContain("SnapshotLost");
  await world.controller("deleteSnapshot", { snapshotId: snapshot.snapshot?.snapshotId ?? "" });
  await until(abnormal, false);
});
