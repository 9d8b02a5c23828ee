import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

import { compileTo } from "../build.ts";
import { type CsiClient, csiClient } from "../client.ts";
import { connects } from "../daemon.ts";
import { load } from "./load.ts";
import type { Scale } from "./setting.ts";
import type { Figure } from "./table.ts";
import { pair } from "./volumes.ts";

async function listening(socket: string): Promise<void> {
  for (let tries = 0; !(await connects(socket)); tries++) {
    if (tries > 500) throw new Error("the bare server does not listen");
    await pause(20);
  }
}

/** A server on the same stack that makes the same system calls and does nothing else (bare-server.ts), while `work` asks it. */
export async function withBareServer<T>(
  folder: string,
  work: (client: CsiClient, pid: number) => Promise<T>,
): Promise<T> {
  const executable = await compileTo(join(folder, "bare"), "scripts/bench/bare-server.ts");
  const [socket, base] = [join(folder, "bare.sock"), join(folder, "bare-storage")];
  await mkdir(base, { recursive: true });
  const child = spawn(executable, [socket, base], { stdio: "ignore", env: { ...process.env } });
  const ended = once(child, "exit");
  const client = csiClient(socket);
  try {
    await listening(socket);
    return await work(client, child.pid ?? 0);
  } finally {
    client.close();
    child.kill();
    await ended;
  }
}

/** What a pair costs such a server. */
export const barePairs = (scale: Scale, folder: string): Promise<readonly Figure[]> =>
  withBareServer(folder, async (client, pid) => {
    const one = (index: number) => pair(client, `pvc-${index}`, "one");
    await load(pid, 20, 1, index => one(-1 - index));
    const cold = await load(pid, scale.pairs, 1, one);
    await load(pid, scale.morePairs, 1, one);
    const warm = await load(pid, scale.pairs, 1, one);
    return [
      { what: "  by a server that does nothing else", value: cold.cpu, unit: "ms" },
      { what: `  by that server, ${scale.morePairs} pairs later`, value: warm.cpu, unit: "ms" },
    ];
  });
