/**
 * How the engine is to run csimux; it reads these once, when a process begins.
 * - Told of less memory than the machine has, the garbage collector keeps the heap small.
 * - Its optimizing compilers cost more, in time and memory, than they give back to a server that mostly waits: the last one is
 *   off, the other one is for what runs all the time.
 * - Code that has not run for a while is dropped early.
 * - File system calls wait in threads, by default as many as processors: one hung mount would hold all of them.
 */
export const engineSettings: Readonly<Record<string, string>> = {
  BUN_JSC_forceRAMSize: "82000000",
  BUN_JSC_useFTLJIT: "0",
  BUN_JSC_thresholdForOptimizeAfterWarmUp: "10000",
  BUN_JSC_thresholdForOptimizeAfterLongWarmUp: "10000",
  BUN_JSC_thresholdForOptimizeSoon: "10000",
  BUN_JSC_useEagerCodeBlockJettisonTiming: "1",
  UV_THREADPOOL_SIZE: "12",
};

/** Where a compiled executable finds its own program. */
const compiledProgram = "/$bunfs/";

/**
 * Begins the process anew (execve(2): same pid, same descriptors) with those of the settings above that the environment lacks.
 * Returns when it lacks none, and at once in anything but the compiled executable.
 */
export function tuneEngine(): void {
  const { argv, env } = process;
  if (!argv[1]?.startsWith(compiledProgram) || process.execve === undefined) return;
  if (Object.keys(engineSettings).every(name => env[name] !== undefined)) return;
  try {
    process.execve("/proc/self/exe", [process.argv0, ...argv.slice(2)], { ...engineSettings, ...env });
  } catch {
    // Without them csimux takes more memory and does the same.
  }
}
