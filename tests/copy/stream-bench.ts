import { execFileSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compileTo } from "../../scripts/build.ts";
import { engineSettings } from "../../scripts/engine.ts";
import { median, table } from "../../scripts/figures.ts";
import { type Sshd, startSshd } from "../io/ssh/sshd.ts";
import type { StreamCost } from "./stream-bench-program.ts";

// Measures a stream between two hosts through the compiled executable's code, in turns with ssh | ssh in a shell. Needs root and sshd:
// bun tests/copy/stream-bench.ts [MiB] [passes]

const mib = Number(process.argv[2] ?? 2048);
const passes = Number(process.argv[3] ?? 3);
const folder = await mkdtemp(join(tmpdir(), "csimux-bench-"));
const sshds = await Promise.all([startSshd(), startSshd()]);
const [a, b] = sshds;
const env = { ...process.env, ...engineSettings };

/** The ssh(1) of a person, with the algorithms that csimux uses too: the defaults. */
const ssh = (sshd: Sshd, command: string): string =>
  `ssh -F none -T -p ${sshd.port} -l root -i ${sshd.folder}/client -o StrictHostKeyChecking=no ` +
  `-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR 127.0.0.1 '${command}'`;

const streamed = (program: string, ...words: readonly string[]): StreamCost =>
  JSON.parse(execFileSync(program, words, { encoding: "utf8", env })) as StreamCost;

try {
  const program = await compileTo(join(folder, "program"), "tests/copy/stream-bench-program.ts");
  const settings = join(folder, "settings.json");
  await writeFile(settings, JSON.stringify([a.settings(), b.settings()]), { mode: 0o600 });
  const bare: number[] = [];
  const costs: StreamCost[] = [];
  for (let pass = 0; pass < passes; pass++) {
    const from = performance.now();
    execFileSync("sh", ["-c", `${ssh(a, `head -c ${mib}M /dev/zero`)} | ${ssh(b, "cat >/dev/null")}`]);
    bare.push((performance.now() - from) / 1000);
    costs.push(streamed(program, settings, `${mib}M`));
  }
  const { lateMs } = streamed(program, settings, `${Math.ceil(mib / 4)}M`, "timers");
  const middle = (key: "seconds" | "beginCpuMs" | "cpuMs" | "grownMiB"): number => median(costs.map(cost => cost[key]));
  const own = middle("seconds");
  const gigabytes = (mib * 2 ** 20) / 1e9;
  const figures = [
    { what: `${mib} MiB by ssh | ssh`, value: mib / median(bare), unit: "MiB/s" },
    { what: `${mib} MiB by csimux`, value: mib / own, unit: "MiB/s" },
    { what: "time, divided by the one of ssh | ssh", value: own / median(bare), unit: "x", target: 1.11 },
    { what: "CPU of csimux itself for three logins", value: middle("beginCpuMs"), unit: "ms" },
    { what: "CPU of csimux itself for each GB", value: middle("cpuMs") / gigabytes, unit: "ms", target: 10 },
    { what: "memory more than at the first byte", value: middle("grownMiB"), unit: "MiB", target: 5 },
    { what: "timers late before a stream, 99th percentile", value: lateMs[0], unit: "ms" },
    { what: "timers late during a stream, 99th percentile", value: lateMs[1], unit: "ms" },
  ];
  const rows = bare.map((each, at) => `${each.toFixed(1)} and ${costs[at]?.seconds.toFixed(1)}`);
  process.stdout.write(`${table(figures)}\neach pass in seconds: ${rows.join(", ")}\n`);
} finally {
  await Promise.all(sshds.map(({ stop }) => stop()));
  await rm(folder, { recursive: true, force: true });
}
