import { listStep, namesStep } from "../../../lib/drivers/zfs/cli/steps.ts";
import { startProcess } from "../../../lib/io/long-running-process.ts";
import { Worker } from "../../../lib/io/ssh/worker.ts";
import { pause } from "../../waiting.ts";
import { printCost } from "../process-cost.ts";

/** One script on a hostile host, in a process of its own; see printCost. */

const [form = ""] = process.argv.slice(2);
const shell = [process.execPath, `${import.meta.dir}/../../fakes/hostile/shell.ts`, form] as const;
const env = { PATH: process.env["PATH"] ?? "" };

async function ended(): Promise<string> {
  const worker = await Worker.open("ssh hostile", listener => startProcess([...shell], env, listener), 20_000);
  const programs = { zfs: ["zfs"], zpool: "zpool", privileged: [] } as const;
  const lists = {
    rows: listStep(programs, ["tank/v"], ["filesystem"], ["type", "guid"], 1),
    names: namesStep(programs, ["tank/v"], ["filesystem"], 1),
  };
  const list = Object.entries(lists).find(([kind]) => form.startsWith(`${kind}: `))?.[1];
  const steps = [list ?? { name: "one", argv: ["true"] as const, maxBytes: 64 << 20 }] as const;
  const outputs = await worker.run({ steps, timeoutMs: 20_000 }, new AbortController().signal);
  // What comes after the end is noticed without a question.
  for (let n = 0; n < 400 && !worker.dead && form.startsWith("noise"); n++) await pause(5);
  worker.close();
  return `exit ${outputs.get("one")?.exitCode}, ${worker.dead ? "dead" : "alive"}`;
}

await printCost(() =>
  ended().catch((error: { readonly failure?: string; readonly message: string }) => error.failure ?? error.message),
);
