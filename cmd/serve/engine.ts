/**
 * Settings of the engine, which reads them once, when a process starts.
 * - With a smaller memory size than the machine's, the garbage collector keeps the heap small.
 * - Its optimizing compilers cost a mostly waiting server more time and memory than they save: the last one is
 *   off, the other one is for code that runs all the time.
 * - Code that has not run for a while is dropped early.
 * - File system calls block threads, by default as many as processors: one hung mount would block all of them.
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

/** The path of the program inside a compiled executable. */
const compiledProgram = "/$bunfs/";

/**
 * Restarts the process (execve(2): same pid, same descriptors) with the settings above that are missing in the
 * environment. Returns if none is missing, and immediately in anything but the compiled executable.
 */
export function tuneEngine(): void {
  const { argv, env } = process;
  if (!argv[1]?.startsWith(compiledProgram) || process.execve === undefined) return;
  if (Object.keys(engineSettings).every(name => env[name] !== undefined)) return;
  try {
    process.execve("/proc/self/exe", [process.argv0, ...argv.slice(2)], { ...engineSettings, ...env });
  } catch {
    // Without them csimux works the same, but uses more memory.
  }
}
