import { status } from "@grpc/grpc-js";
import { Controller, Identity } from "../lib/csi/gen/csi/v1/csi_pb.ts";
import { type CsiClient, csiClient, mountCapability } from "./client.ts";
import { quickstart } from "./run.ts";

type Said = (call: string, answer: string) => void;

async function make(
  client: CsiClient,
  connection: string,
  said: Said,
): Promise<{ readonly volumeId: string; readonly snapshotId: string }> {
  const { volume } = await client.call(Controller.method.createVolume, {
    name: "try-volume",
    parameters: { connection },
    capacityRange: { requiredBytes: 1n << 30n },
    volumeCapabilities: [mountCapability],
  });
  const volumeId = volume?.volumeId ?? "";
  said(`CreateVolume connection=${connection}`, `${volumeId}, ${volume?.capacityBytes} bytes`);
  // Volumes of two connections may share a name; a snapshot's name is one of its own in the whole driver.
  const request = { name: `try-${connection}`, sourceVolumeId: volumeId };
  const { snapshot } = await client.call(Controller.method.createSnapshot, request);
  const snapshotId = snapshot?.snapshotId ?? "";
  said(`CreateSnapshot of ${volumeId}`, snapshotId);
  return { volumeId, snapshotId };
}

/** A walk through the quick start: what a cluster asks of csimux in the life of volumes, told call by call. */
export async function walk(socket: string, said: Said): Promise<void> {
  const client = csiClient(socket);
  try {
    const plugin = await client.call(Identity.method.getPluginInfo, {}, 5000);
    said("GetPluginInfo", `${plugin.name} ${plugin.vendorVersion}`);
    const made = [await make(client, "fast", said), await make(client, "archive", said)];
    const { entries } = await client.call(Controller.method.listVolumes, {});
    said("ListVolumes", entries.map(entry => entry.volume?.volumeId).join(", "));
    for (const { volumeId, snapshotId } of made) {
      await client.call(Controller.method.deleteSnapshot, { snapshotId });
      said(`DeleteSnapshot ${snapshotId}`, "gone");
      await client.call(Controller.method.deleteVolume, { volumeId });
      said(`DeleteVolume ${volumeId}`, "gone");
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
    const unreached = error instanceof Error && "code" in error && error.code === status.UNAVAILABLE;
    if (unreached) console.error('Is "make run" running in another terminal?');
    process.exitCode = 1;
  }
}

if (import.meta.main) await main();
