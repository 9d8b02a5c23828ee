import { Worker } from "../../../lib/io/ssh/worker.ts";
import { standing } from "../../../lib/io/standing.ts";

/** One script on a hostile host, in a process of its own: prints how it ended, what it cost, and how long the event loop stood still. */

const [form = ""] = process.argv.slice(2);
const shell = [process.execPath, `${import.meta.dir}/../../fakes/hostile/shell.ts`, form] as const;
const env = { PATH: process.env["PATH"] ?? "" };
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

async function ended(): Promise<string> {
  const worker = await Worker.open("ssh hostile", listener => standing([...shell], env, listener), 20_000);
  const steps = [{ name: "one", argv: ["true"], maxBytes: 64 << 20 }] as const;
  const outputs = await worker.run({ steps, timeoutMs: 20_000 }, new AbortController().signal);
  // What comes after the end is noticed without a question.
  for (let n = 0; n < 400 && !worker.dead && form.startsWith("noise"); n++) await Bun.sleep(5);
  worker.close();
  return `exit ${outputs.get("one")?.exitCode}, ${worker.dead ? "dead" : "alive"}`;
}

const how = await ended().catch((error: { readonly failure?: string; readonly message: string }) =>
  error.failure === undefined ? error.message : error.failure,
);
clearInterval(sampling);
process.stdout.write(
  JSON.stringify({ how, grownMiB: Math.round((most - begin) / (1 << 20)), longestMs: Math.round(longest) }),
);
process.exit(0);
