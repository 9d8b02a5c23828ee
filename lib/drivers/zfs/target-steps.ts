import { CsiError } from "../../core/errors.ts";
import type { Argv } from "../../io/runner.ts";
import type { Outputs, Step } from "../../io/script.ts";
import type { Target } from "./target-share.ts";

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

/** Throws "unavailable" when `deviceStep` did not find it. */
export function refuseAbsent(outputs: Outputs, { device }: Target): void {
  if (outputs.get("device")?.exitCode === 0) return;
  throw new CsiError("unavailable", `the device ${device} does not appear; repeat the call`);
}

/** Runs a program alone on its host, other programs than csimux included, where flock(1) is there to see to it. */
const aloneText = `lock=$1; shift
export TARGETCLI_HOME=\${TARGETCLI_HOME:-/root/.targetcli}
if command -v flock >/dev/null; then exec flock -w 60 "$lock" "$@"; else exec "$@"; fi`;

/** A run of a tool of the host; over its standard input, where secrets do not show. `tool` names the lock. */
export const aloneStep = (name: string, tool: string, argv: Argv, more: Partial<Step>): Step =>
  step(name, ["sh", "-c", aloneText, "sh", `/run/lock/csimux-${tool}`, ...argv], { ...more, onFailure: "go-on" });
