import { status } from "@grpc/grpc-js";
import { Controller, Identity } from "../lib/csi/gen/csi/v1/csi_pb.ts";
import { type CsiClient, csiClient, mountCapability } from "./client.ts";
import { connects } from "./daemon.ts";
import { quickstart } from "./run.ts";
import { fail } from "./say.ts";

type Said = (call: string, answer: string) => void;

interface Made {
  readonly volumeId: string;
  readonly snapshotId: string | undefined;
}

/** Creates a volume and a snapshot of it, and adds each to `made` immediately. */
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
  // Volumes on two connections can have the same name; snapshot names are unique in the whole driver.
  const request = { name: `try-${connection}`, sourceVolumeId: volumeId };
  try {
    const { snapshot } = await client.call(Controller.method.createSnapshot, request);
    const snapshotId = snapshot?.snapshotId ?? "";
    made.splice(-1, 1, { volumeId, snapshotId });
    said(`CreateSnapshot of ${volumeId}`, snapshotId);
  } catch (error) {
    // Copying a folder requires the right to mount, which ordinary users lack; other drivers may have no snapshots.
    const refused: readonly unknown[] = [status.FAILED_PRECONDITION, status.INVALID_ARGUMENT];
    if (!(error instanceof Error && "code" in error && refused.includes(error.code))) throw error;
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
 * Walks through the quick start: makes the calls of a volume's life on each connection and reports each. Leaves nothing behind.
 * `firstMs` is the time limit of the first answer, in milliseconds.
 */
export async function walk(
  socket: string,
  said: Said,
  firstMs = 5000,
  connections: readonly string[] = ["fast", "archive"],
): Promise<void> {
  const client = csiClient(socket);
  const made: Made[] = [];
  try {
    const plugin = await client.call(Identity.method.getPluginInfo, {}, firstMs);
    said("GetPluginInfo", `${plugin.name} ${plugin.vendorVersion}`);
    try {
      for (const connection of connections) await make(client, connection, made, said);
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
    const given = process.argv.length > 2 ? process.argv.slice(2) : undefined;
    await walk(
      `${quickstart}/csi.sock`,
      (call, answer) => console.log(`${call.padEnd(42)} ${answer}`),
      undefined,
      given,
    );
  } catch (error) {
    fail(error);
    if (!(await connects(`${quickstart}/csi.sock`))) console.error('Is "make run" running in another terminal?');
  }
}

if (import.meta.main) await main();
