import { readFileSync } from "node:fs";
import { copyByStream } from "../../lib/copies/zfs-send.ts";
import type { Call, Log } from "../../lib/core/call.ts";
import type { StreamSource, StreamTarget } from "../../lib/drivers/copying.ts";
import { SshHosts } from "../../lib/io/ssh/hosts.ts";
import type { SshSettings } from "../../lib/io/ssh/settings.ts";
import { passing } from "../waiting.ts";

// One stream of zeros between two hosts; prints what it cost this process. `stream-bench.ts` compiles and starts it.

/** What a stream costs the process that joins its ends. */
export interface StreamCost {
  readonly seconds: number;
  /** Until the logins, in milliseconds. */
  readonly beginCpuMs: number;
  /** From the first report of progress to its end, in milliseconds. */
  readonly cpuMs: number;
  /** The growth of the resident memory after the logins, in MiB. */
  readonly grownMiB: number;
  /** How late timers of 5 ms were before the stream and during it, if they ran: the 99th percentile, in milliseconds. */
  readonly lateMs: readonly [before: number, during: number];
}

/** Measures how late timers are, until it is asked. They cost more than a stream. */
function watchTimers(): () => number {
  const late: number[] = [];
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    late.push(now - last - 5);
    last = now;
  }, 5);
  return () => {
    clearInterval(timer);
    late.sort((one, other) => one - other);
    return late[Math.floor(late.length * 0.99)] ?? 0;
  };
}

async function main(): Promise<void> {
  const [file = "", size = "", timers] = process.argv.slice(2);
  const [from, to] = JSON.parse(readFileSync(file, "utf8")) as readonly [SshSettings, SshSettings];
  const log: Log = { debug() {}, info() {}, warn() {}, error() {}, with: () => log };
  const env = { PATH: process.env["PATH"] ?? "", HOME: "/root" };
  const hosts = new SshHosts({ env, askpass: [process.execPath], log });
  let isWhole = false;
  const source: StreamSource = {
    ...{ format: "zfs:filesystem", machine: "a" },
    open: () => ({ host: hosts.lease(from).value, argv: ["head", "-c", size, "/dev/zero"] }),
    isTokenOf: async () => true,
  };
  const target: StreamTarget = {
    ...{ format: "zfs:filesystem", machine: "b" },
    async state() {
      const kind = isWhole ? "whole" : "nothing";
      isWhole = true;
      return kind === "whole" ? { kind, proof: "1" } : { kind };
    },
    open: () => ({ host: hosts.lease(to).value, argv: ["sh", "-c", "cat >/dev/null"] }),
    stop: async () => {},
    discard: async () => {},
  };
  let first: { readonly rss: number; readonly cpu: NodeJS.CpuUsage } | undefined;
  let most = 0;
  const progress = (): void => {
    const rss = process.memoryUsage.rss();
    first ??= { rss, cpu: process.cpuUsage() };
    most = Math.max(most, rss);
  };
  const call: Call = { id: "bench", signal: new AbortController().signal, log, secrets: {} };
  const snapshot = { name: "m", proof: "1", bytes: 0n, toSend: 0n, stable: true } as const;
  const traits = { encrypted: undefined, blockBytes: 0n, fixed: {} };
  const idle = timers === undefined ? undefined : watchTimers();
  // What an idle process does is measured, too.
  if (idle) await passing(5_000);
  const before = idle?.() ?? 0;
  const during = timers === undefined ? undefined : watchTimers();
  const [begin, cpu] = [performance.now(), process.cpuUsage()];
  const rest = { earlier: undefined, method: "zfs-send", basic: false, simplified: async () => {}, progress } as const;
  await copyByStream({ source, target, id: "v", snapshot: { ...snapshot, traits }, ...rest }, call);
  const seconds = (performance.now() - begin) / 1000;
  const [start, end] = [first?.cpu ?? cpu, process.cpuUsage()];
  const between = (one: NodeJS.CpuUsage, other: NodeJS.CpuUsage): number =>
    (other.user + other.system - one.user - one.system) / 1000;
  await hosts.close();
  const cost: StreamCost = {
    seconds,
    beginCpuMs: between(cpu, start),
    cpuMs: between(start, end),
    grownMiB: (most - (first?.rss ?? most)) / (1 << 20),
    lateMs: [before, during?.() ?? 0],
  };
  process.stdout.write(JSON.stringify(cost));
  process.exit(0);
}

void main();
