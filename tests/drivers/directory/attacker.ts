import { dlopen } from "bun:ffi";

/** What the worker is given: numbers that both sides see, and for each volume the pairs of names in it that it exchanges. */
export interface Orders {
  readonly state: Int32Array;
  readonly pairs: readonly (readonly [string, string])[];
  readonly volumes: readonly string[];
}

/** Places in `state`: the volume to attack by its index (-1: none), the end, the number of exchanges so far, the volume under attack. */
export const target = 0;
export const ended = 1;
export const exchanges = 2;
export const opened = 3;

/** Without a pause the one lock that the kernel has for renames would leave the tools little to do. */
const pauseMs = 0.2;

const exchangeFlag = 2; // RENAME_EXCHANGE (renameat2(2))
const openFlags = 0o200000; // O_DIRECTORY

/**
 * Does what a pod can do in its volumes with root rights: exchanges folders with symbolic links as fast as the kernel can, by open
 * folders, as a pod does, whose mount stays when its volume is moved.
 */
function attack({ state, pairs, volumes }: Orders): void {
  const libc = dlopen("libc.so.6", {
    open: { args: ["cstring", "i32"], returns: "i32" },
    close: { args: ["i32"], returns: "i32" },
    renameat2: { args: ["i32", "cstring", "i32", "cstring", "u32"], returns: "i32" },
  }).symbols;
  const text = (word: string) => Buffer.from(`${word}\0`);
  const names = pairs.map(([a, b]) => [text(a), text(b)] as const);
  let current = -1;
  let folder = -1;
  while (Atomics.load(state, ended) === 0) {
    const wanted = Atomics.load(state, target);
    if (wanted !== current) {
      if (folder >= 0) libc.close(folder);
      folder = wanted < 0 ? -1 : libc.open(text(volumes[wanted] ?? ""), openFlags);
      current = wanted;
      Atomics.store(state, opened, wanted);
      Atomics.notify(state, opened);
    }
    if (folder < 0) {
      Atomics.wait(state, target, wanted, 100);
      continue;
    }
    Atomics.wait(state, target, wanted, pauseMs);
    for (const [a, b] of names) {
      if (libc.renameat2(folder, a, folder, b, exchangeFlag) === 0) Atomics.add(state, exchanges, 1);
    }
  }
  if (folder >= 0) libc.close(folder);
  Atomics.store(state, ended, 2);
}

if (!Bun.isMainThread) addEventListener("message", ({ data }: MessageEvent<Orders>) => attack(data));
