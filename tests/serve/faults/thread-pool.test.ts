import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { build } from "../../../scripts/build.ts";
import { type Daemon, startDaemon } from "../../../scripts/daemon.ts";
import { makeSandbox } from "../../../scripts/sandbox.ts";

async function serving(env: Readonly<Record<string, string>>, work: (daemon: Daemon) => Promise<void>): Promise<void> {
  const sandbox = await makeSandbox("off");
  try {
    const daemon = await startDaemon({ command: [await build()], sandbox, env });
    try {
      await work(daemon);
    } finally {
      expect((await daemon.stop()).code).toBe(0);
    }
  } finally {
    await sandbox.remove();
  }
}

const facts = async (pid: number, name: "environ" | "cmdline"): Promise<readonly string[]> =>
  (await readFile(`/proc/${pid}/${name}`, "utf8")).split("\0");

test("the daemon restarts itself with 64 threads for file systems, under its pid and with its arguments", () =>
  serving({ CSIMUX_TEST: "kept" }, async ({ pid }) => {
    const environment = await facts(pid, "environ");
    expect(environment).toContain("UV_THREADPOOL_SIZE=64");
    expect(environment).toContain("CSIMUX_TEST=kept");
    const [, ...args] = await facts(pid, "cmdline");
    expect(args.slice(0, 2)).toEqual(["serve", "--endpoint"]);
  }));

test("a number of threads that the operator has set stays", () =>
  serving({ UV_THREADPOOL_SIZE: "20" }, async ({ pid }) => {
    expect(await facts(pid, "environ")).toContain("UV_THREADPOOL_SIZE=20");
  }));

test("nothing but the service's own lines reaches the log", () =>
  serving({}, async daemon => {
    // The socket takes connections a moment before the line about it is written.
    const until = Date.now() + 20_000;
    while (!(await daemon.log()).includes("listening") && Date.now() < until);
    for (const line of (await daemon.log()).trim().split("\n")) expect(JSON.parse(line)).toHaveProperty("time");
  }));
