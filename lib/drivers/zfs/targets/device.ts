import type { Call } from "../../../core/call.ts";
import type { Step, StorageHost } from "../../../io/script.ts";
import { absentDevice, type ExportedTarget } from "./exporter.ts";

const text = 'n=0; until [ -e "$1" ]; do n=$((n+1)); [ $n -lt 100 ] || exit 1; sleep 0.1; done';

/** Waits up to ten seconds for a device, which udev makes a moment after the zvol. */
export const deviceStep = (device: string): Step => ({ name: "device", argv: ["sh", "-c", text, "sh", device] });

/** The same on a host. Throws "unavailable" when the device does not appear. */
export async function awaitDevice(host: StorageHost, target: ExportedTarget, { signal }: Call): Promise<void> {
  const outputs = await host.script({ steps: [deviceStep(target.device)] }, signal);
  if (outputs.get("device")?.exitCode !== 0) throw absentDevice(target);
}
