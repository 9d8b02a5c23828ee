import type { Call } from "../../core/call.ts";
import type { KeyedMutex } from "../../io/keyed-mutex.ts";
import type { Context } from "../requests.ts";
import type { Attacher } from "./attacher.ts";

/** Runs `work` under the lock that the volume shares with others, if any. */
export function withTargetLock<T>(
  turns: KeyedMutex,
  attacher: Attacher,
  context: Context,
  call: Call,
  work: () => Promise<T>,
): Promise<T> {
  const name = attacher.lockOf?.(context);
  return name === undefined ? work() : turns.take(name, call.signal, work);
}
