/**
 * Runs `work` in a process of its own and ends it: prints how the work ended, by how many MiB the resident memory grew, and how long the
 * event loop stood still at most. What the process waits for a processor on a busy machine is not its own doing, so a turn counts at
 * most the processor time that it used.
 */
export async function printCost(work: () => Promise<string>): Promise<never> {
  const begin = process.memoryUsage.rss();
  let most = begin;
  let longest = 0;
  let last = performance.now();
  let used = process.cpuUsage();
  const sampling = setInterval(() => {
    const now = performance.now();
    const { user, system } = process.cpuUsage(used);
    longest = Math.max(longest, Math.min(now - last, (user + system) / 1_000));
    last = now;
    used = process.cpuUsage();
    most = Math.max(most, process.memoryUsage.rss());
  }, 5);
  const how = await work();
  clearInterval(sampling);
  const grownMiB = Math.round((most - begin) / (1 << 20));
  process.stdout.write(JSON.stringify({ how, grownMiB, longestMs: Math.round(longest) }));
  process.exit(0);
}
