import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { Argv } from "../../../io/runner.ts";
import type { Step, StorageHost } from "../../../io/script.ts";
import { locked } from "../cli/host-lock.ts";
import type { ExportedTarget } from "./target-share.ts";

/** A step of these words, at least one of which is known. */
export const step = (name: string, words: readonly string[], more: Partial<Step> = {}): Step => {
  const [first = "sh", ...rest] = words;
  return { name, argv: [first, ...rest], ...more };
};

/** Waits up to ten seconds for a device, which udev makes a moment after the zvol. */
export const deviceStep = (device: string): Step =>
  step("device", [
    ...["sh", "-c", 'n=0; until [ -e "$1" ]; do n=$((n+1)); [ $n -lt 100 ] || exit 1; sleep 0.1; done', "sh"],
    device,
  ]);

/** Waits for the device of a target, before the lock of its tool is taken. Throws "unavailable" when it does not appear. */
export async function awaitDevice(host: StorageHost, { device }: ExportedTarget, call: Call): Promise<void> {
  const outputs = await host.script({ steps: [deviceStep(device)] }, call.signal);
  if (outputs.get("device")?.exitCode === 0) return;
  throw new CsiError("unavailable", `the device ${device} does not appear; repeat the call`);
}

/** A run of a tool of the host, alone; over its standard input, where secrets do not show. `tool` names the lock. */
export const aloneStep = (name: string, tool: string, argv: Argv, more: Partial<Step>): Step =>
  step(name, locked(tool, argv), { ...more, onFailure: "go-on" });
