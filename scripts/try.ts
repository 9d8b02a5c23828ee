import { Controller, Identity, VolumeCapability_AccessMode_Mode } from "../lib/csi/gen/csi/v1/csi_pb.ts";
import { csiClient } from "./client.ts";
import { quickstart } from "./run.ts";

const volumeCapabilities = [
  {
    accessType: { case: "mount" as const, value: {} },
    accessMode: { mode: VolumeCapability_AccessMode_Mode.SINGLE_NODE_WRITER },
  },
];

/** A walk through the quick start: what a cluster asks of csimux in a volume's life, printed call by call. */
async function walk(socket: string): Promise<void> {
  const client = csiClient(socket);
  const said = (call: string, answer: string) => console.log(`${call.padEnd(42)} ${answer}`);
  try {
    const plugin = await client.call(Identity.method.getPluginInfo, {}, 5000);
    said("GetPluginInfo", `${plugin.name} ${plugin.vendorVersion}`);
    for (const connection of ["fast", "archive"]) {
      const created = await client.call(Controller.method.createVolume, {
        name: "try-volume",
        parameters: { connection },
        capacityRange: { requiredBytes: 1n << 30n },
        volumeCapabilities,
      });
      const volumeId = created.volume?.volumeId ?? "";
      said(`CreateVolume connection=${connection}`, `${volumeId}, ${created.volume?.capacityBytes} bytes`);
      const snapped = await client.call(Controller.method.createSnapshot, {
        name: "try-snapshot",
        sourceVolumeId: volumeId,
      });
      const snapshotId = snapped.snapshot?.snapshotId ?? "";
      said(`CreateSnapshot of ${volumeId}`, snapshotId);
      const { entries } = await client.call(Controller.method.listVolumes, {});
      said("ListVolumes, all connections", entries.map(entry => entry.volume?.volumeId).join(", "));
      await client.call(Controller.method.deleteSnapshot, { snapshotId });
      said(`DeleteSnapshot ${snapshotId}`, "gone");
      await client.call(Controller.method.deleteVolume, { volumeId });
      said(`DeleteVolume ${volumeId}`, "gone");
    }
  } finally {
    client.close();
  }
}

walk(`${quickstart}/csi.sock`).catch((error: unknown) => {
  console.error(
    `${error instanceof Error ? error.message : String(error)}\nIs "make run" running in another terminal?`,
  );
  process.exitCode = 1;
});
