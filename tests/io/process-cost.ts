/**
 * Runs `work` in a process of its own and ends it: prints how the work ended, by how many MiB the resident memory grew, and how long the
 * event loop stood still at most.
 */
export async function printCost(work: () => Promise<string>): Promise<never> {
  const begin = process.memoryUsage.rss();
  let most = begin;
  let longest = 0;
  let last = performance.now();
  const sampling = setInterval(() => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    most = Math.max(most, process.memoryUsage.rss());
  }, 5);
  const how = await work();
  clearInterval(sampling);
  const grownMiB = Math.round((most - begin) / (1 << 20));
  process.stdout.write(JSON.stringify({ how, grownMiB, longestMs: Math.round(longest) }));
  process.exit(0);
}
