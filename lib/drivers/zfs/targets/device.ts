import type { Call } from "../../../core/call.ts";
import type { Step, StorageHost } from "../../../io/script.ts";
import { absentDevice, type ExportedTarget } from "./exporter.ts";
import { refuseUnnoted } from "./note.ts";

const text = 'n=0; until [ -e "$1" ]; do n=$((n+1)); [ $n -lt 100 ] || exit 1; sleep 0.1; done';

/** Waits up to ten seconds for a device, which udev makes a moment after the zvol. */
export const deviceStep = (device: string): Step => ({ name: "device", argv: ["sh", "-c", text, "sh", device] });

/** The same on a host, after steps of `noteSteps`. Throws "unavailable" when the device does not appear, and what those steps throw. */
export async function awaitDevice(
  host: StorageHost,
  target: ExportedTarget,
  { signal }: Call,
  notes: readonly Step[] = [],
): Promise<void> {
  const device = deviceStep(target.device);
  const [first = device, ...rest] = [...notes, device];
  const outputs = await host.script({ steps: [first, ...rest] }, signal);
  refuseUnnoted(outputs);
  if (outputs.get("device")?.exitCode !== 0) throw absentDevice(target);
}
