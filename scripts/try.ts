import { status } from "@grpc/grpc-js";
import { Controller, Identity } from "../lib/csi/gen/csi/v1/csi_pb.ts";
import { type CsiClient, csiClient, mountCapability } from "./client.ts";
import { connects } from "./daemon.ts";
import { quickstart } from "./run.ts";

type Said = (call: string, answer: string) => void;

interface Made {
  readonly volumeId: string;
  readonly snapshotId: string | undefined;
}

/** Makes a volume and a snapshot of it; each is in `made` as soon as it is there. */
async function make(client: CsiClient, connection: string, made: Made[], said: Said): Promise<void> {
  const { volume } = await client.call(Controller.method.createVolume, {
    name: "try-volume",
    parameters: { connection },
    capacityRange: { requiredBytes: 1n << 30n },
    volumeCapabilities: [mountCapability],
  });
  const volumeId = volume?.volumeId ?? "";
  made.push({ volumeId, snapshotId: undefined });
  said(`CreateVolume connection=${connection}`, `${volumeId}, ${volume?.capacityBytes} bytes`);
  // Volumes of two connections may share a name; a snapshot's name is one of its own in the whole driver.
  const request = { name: `try-${connection}`, sourceVolumeId: volumeId };
  try {
    const { snapshot } = await client.call(Controller.method.createSnapshot, request);
    const snapshotId = snapshot?.snapshotId ?? "";
    made.splice(-1, 1, { volumeId, snapshotId });
    said(`CreateSnapshot of ${volumeId}`, snapshotId);
  } catch (error) {
    // Folders are copied only by who may make mounts, which an ordinary user may not.
    if (!(error instanceof Error && "code" in error && error.code === status.FAILED_PRECONDITION)) throw error;
    said(`CreateSnapshot of ${volumeId}`, `refused here: ${error.message}`);
  }
}

async function remove(client: CsiClient, { volumeId, snapshotId }: Made, said: Said): Promise<void> {
  if (snapshotId !== undefined) {
    await client.call(Controller.method.deleteSnapshot, { snapshotId });
    said(`DeleteSnapshot ${snapshotId}`, "gone");
  }
  await client.call(Controller.method.deleteVolume, { volumeId });
  said(`DeleteVolume ${volumeId}`, "gone");
}

/**
 * A walk through the quick start: what a cluster asks of csimux in the life of volumes, told call by call. Leaves nothing behind.
 * `firstMs` is how long it waits for somebody to answer at all, in milliseconds.
 */
export async function walk(socket: string, said: Said, firstMs = 5000): Promise<void> {
  const client = csiClient(socket);
  const made: Made[] = [];
  try {
    const plugin = await client.call(Identity.method.getPluginInfo, {}, firstMs);
    said("GetPluginInfo", `${plugin.name} ${plugin.vendorVersion}`);
    try {
      for (const connection of ["fast", "archive"]) await make(client, connection, made, said);
      const { entries } = await client.call(Controller.method.listVolumes, {});
      said("ListVolumes", entries.map(entry => entry.volume?.volumeId).join(", "));
    } finally {
      for (const each of made) await remove(client, each, said);
    }
  } finally {
    client.close();
  }
}

async function main(): Promise<void> {
  try {
    await walk(`${quickstart}/csi.sock`, (call, answer) => console.log(`${call.padEnd(42)} ${answer}`));
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    if (!(await connects(`${quickstart}/csi.sock`))) console.error('Is "make run" running in another terminal?');
    process.exitCode = 1;
  }
}

if (import.meta.main) await main();
