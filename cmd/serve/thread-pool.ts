import { compiledProgram } from "../host.ts";

/** The variable with which the engine sizes its thread pool, once, when a process starts. */
const variable = "UV_THREADPOOL_SIZE";

/**
 * Restarts the compiled executable (execve(2): same pid, same descriptors) with 64 threads for file system calls, unless
 * its environment sets their number, as the image does. By default there are as many as processors: one mount that
 * hangs would block all of them, and of 12, those of three file servers (callsAtOnce). They are made when they are needed.
 */
export function ensureThreadPool(): void {
  const { argv, env } = process;
  if (env[variable] !== undefined || !argv[1]?.startsWith(compiledProgram) || process.execve === undefined) return;
  try {
    process.execve("/proc/self/exe", [process.argv0, ...argv.slice(2)], { ...env, [variable]: "64" });
  } catch {
    // csimux works without them, until two mounts hang.
  }
}
