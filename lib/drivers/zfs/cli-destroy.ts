import type { Output } from "../../io/runner.ts";
import type { Outputs, Step } from "../../io/script.ts";
import { outputOf } from "./cli-outputs.ts";
import type { CliWords } from "./cli-steps.ts";
import { refusal } from "./cli-words.ts";
import { cachedStep, type ExportCache } from "./exports.ts";
import type { Destruction, Values } from "./zfs.ts";

/** What destroying needs of who calls zfs. */
export interface Destroyer {
  readonly words: CliWords;
  readonly exports: ExportCache;
  run(steps: readonly Step[], signal: AbortSignal): Promise<Outputs>;
  set(name: string, values: Values, signal: AbortSignal): Promise<void>;
}

/** A dataset, and the step that destroys it. */
interface Doomed {
  readonly name: string;
  readonly how: Destruction;
  readonly destroy: Step;
}

/** Whether something needs what was to be destroyed. */
const isNeeded = (output: Output): boolean => ["dependents", "held"].includes(refusal(output).failure);

/** Destroys a dataset once nobody reaches it any more, and shares it again as it was where something needs it. */
export function destroyShared(by: Destroyer, doomed: Doomed, signal: AbortSignal): Promise<Output> {
  const { exported, sharesmb } = doomed.how;
  if (exported) return unexported(by, doomed, exported, signal);
  return unshared(by, doomed, sharesmb, signal);
}

/** zfs destroy leaves the usershare of a file system, of which a server has only so many (OpenZFS 2.1). */
async function unshared(
  by: Destroyer,
  { name, destroy }: Doomed,
  sharesmb: string | undefined,
  signal: AbortSignal,
): Promise<Output> {
  const shared = sharesmb !== undefined && sharesmb !== "off";
  const unshare: Step = { name: "unshare", argv: [...by.words.zfs, "set", "sharesmb=off", name], onFailure: "go-on" };
  const output = outputOf(await by.run([...(shared ? [unshare] : []), destroy], signal), destroy.name);
  if (shared && output.exitCode !== 0 && isNeeded(output)) await by.set(name, { sharesmb }, signal);
  return output;
}

/**
 * While the kernel's export cache has a file system, it cannot be unmounted, and a failed attempt to destroy it puts it back; so
 * it is taken out of the exports first. One that no client has used of late is not in the cache and goes at once.
 */
async function unexported(
  { words, exports, run, set }: Destroyer,
  { name, destroy }: Doomed,
  { mountpoint, sharenfs }: NonNullable<Destruction["exported"]>,
  signal: AbortSignal,
): Promise<Output> {
  const cached = cachedStep(mountpoint, words.privileged);
  exports.changed();
  const unused = (await run([cached, { ...destroy, unless: cached.name }], signal)).get(destroy.name);
  if (unused) return unused;
  await set(name, { sharenfs: "off" }, signal);
  exports.changed();
  await exports.settled(mountpoint, signal);
  exports.changed();
  const output = outputOf(await run([destroy], signal), destroy.name);
  if (output.exitCode !== 0 && isNeeded(output)) await set(name, { sharenfs }, signal);
  return output;
}
