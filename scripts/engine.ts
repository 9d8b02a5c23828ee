/**
 * Settings of the engine, which it reads when a process starts; the image and `make run` set them. Measured with 200
 * connections and 800 volumes: csimux then adds 5 to 16 MiB to its memory instead of 70 to 90. They do not change its
 * memory at rest.
 * - With a smaller memory size than the machine's, the garbage collector keeps the heap small.
 * - The optimizing compilers cost a mostly waiting server more time and memory than they save: the last one is off, the
 *   other one compiles only code that runs all the time.
 * - Code that has not run for a while is dropped early.
 * - File system calls block threads, by default as many as processors: one mount that hangs could block all of them.
 *   Of these, fifteen file servers or disks that hang leave some (callsAtOnce). A thread is made when it is first needed.
 */
export const engineSettings: Readonly<Record<string, string>> = {
  BUN_JSC_forceRAMSize: "82000000",
  BUN_JSC_useFTLJIT: "0",
  BUN_JSC_thresholdForOptimizeAfterWarmUp: "10000",
  BUN_JSC_thresholdForOptimizeAfterLongWarmUp: "10000",
  BUN_JSC_thresholdForOptimizeSoon: "10000",
  BUN_JSC_useEagerCodeBlockJettisonTiming: "1",
  UV_THREADPOOL_SIZE: "64",
};
