import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Command } from "commander";
import { Controller } from "../lib/csi/gen/csi/v1/csi_pb.ts";
import { build } from "./build.ts";
import { csiClient, mountCapability } from "./client.ts";
import { startDaemon } from "./daemon.ts";
import { type Figure, median, table } from "./figures.ts";
import { down, sshToRunning, up } from "./lab/guest.ts";
import { chosenGuest, runningGuest } from "./lab/guests.ts";
import { guestPorts, hostPort } from "./lab/machine.ts";
import { imageIn } from "./lab/place.ts";
import { makeSandbox } from "./sandbox.ts";

// Measures ZFS over ssh: csimux on this machine with a guest of the lab as its storage host, in turns with the bare commands for
// the same result, in one shell over one connection.

const options = new Command("bun scripts/bench-lab.ts")
  .option("--guest <number>", "a guest that is up and stays up; a fresh one when absent", Number)
  .option("--only <title>", "only operations with this in their title", "")
  .option("--quick", "fewer of everything")
  .parse()
  .opts<{ readonly guest?: number; readonly quick?: true; readonly only: string }>();

const metrics = "127.0.0.1:19478";
const dataset = (connection: string): string => `tank/bench-${connection}`;
const bytes = 64 << 20;
const iqn = "iqn.2025-01.lab.csimux:bench";
const attributes = ["authentication=0", "generate_node_acls=1", "cache_dynamic_acls=1", "demo_mode_write_protect=0"];

const shares: Readonly<Record<string, readonly string[]>> = {
  nfs: [
    "  datasetEnableQuotas: true",
    '  datasetPermissionsMode: "0777"',
    "nfs:",
    "  shareHost: 127.0.0.1",
    "  shareStrategy: setDatasetProperties",
    "  shareStrategySetDatasetProperties:",
    "    properties:",
    "      sharenfs: rw,no_root_squash,insecure",
  ],
  iscsi: [
    "iscsi:",
    "  targetPortal: 127.0.0.1:3260",
    "  shareStrategy: targetCli",
    "  shareStrategyTargetCli:",
    `    basename: ${iqn}`,
    "    tpg:",
    "      attributes:",
    ...attributes.map(each => `        ${each.replace("=", ": ")}`),
  ],
};

const properties = (name: string): string =>
  `-o democratic-csi:csi_volume_name=${name} -o democratic-csi:managed_resource=true`;
const success = "democratic-csi:provision_success=true";
const targetcli = (...lines: readonly string[]): string => `echo '${lines.join("\n")}' | targetcli >/dev/null`;
const [nfs, iscsi] = ["nfs", "iscsi"].map(connection => `${dataset(connection)}/v`);

/** The bare commands for the result of each operation. */
const bare: Readonly<Record<string, (name: string) => string>> = {
  "CreateVolume nfs": name =>
    `zfs create -o refquota=${bytes} -o sharenfs=rw,no_root_squash,insecure ${properties(name)} ${nfs}/${name} && ` +
    `chmod 0777 /${nfs}/${name} && zfs set ${success} ${nfs}/${name}`,
  "CreateSnapshot nfs": name => `zfs snapshot ${properties(name)} ${nfs}/source@${name}`,
  "DeleteVolume nfs": name => `zfs destroy -r ${nfs}/${name}`,
  "CreateVolume iscsi": name =>
    `zfs create -s -b 16384 -V ${bytes} ${properties(name)} ${iscsi}/${name} && ` +
    `until [ -e /dev/zvol/${iscsi}/${name} ]; do sleep 0.1; done; ` +
    `${targetcli(
      "cd /iscsi",
      `create ${iqn}:${name}`,
      `cd /iscsi/${iqn}:${name}/tpg1`,
      ...attributes.map(each => `set attribute ${each}`),
      "cd /backstores/block",
      `create ${name} /dev/zvol/${iscsi}/${name}`,
      `cd /iscsi/${iqn}:${name}/tpg1/luns`,
      `create /backstores/block/${name}`,
    )} && zfs set ${success} ${iscsi}/${name}`,
  "DeleteVolume iscsi": name =>
    `${targetcli("cd /iscsi", `delete ${iqn}:${name}`, "cd /backstores/block", `delete ${name}`)}; ` +
    `n=0; until zfs destroy -r ${iscsi}/${name}; do n=$((n+1)); [ $n -lt 20 ] || exit 1; sleep 0.2; done`,
};

/** The most processes on the host, those that zfs itself starts included. */
const mostProcesses: Readonly<Record<string, { readonly target: number }>> = {
  "CreateVolume nfs": { target: 9 },
  "DeleteVolume nfs": { target: 8 },
};

/** A shell on the storage host over one ssh connection. */
function shellOn([program, ...args]: readonly [string, ...string[]]) {
  const child = spawn(program, [...args, "exec /bin/sh"], { stdio: ["pipe", "pipe", "inherit"] });
  let text = "";
  let received = (): void => {};
  child.stdout.setEncoding("utf8").on("data", chunk => {
    text += chunk;
    received();
  });
  /** Resolves with what the line prints. */
  const run = (line: string): Promise<string> =>
    new Promise((resolve, reject) => {
      text = "";
      received = () => {
        const code = /--done (\d+)\n$/.exec(text)?.[1];
        if (code === "0") resolve(text);
        else if (code !== undefined) reject(new Error(`${line}: exit code ${code}`));
      };
      child.stdin.write(`( ${line}\n) </dev/null; echo "--done $?"\n`);
    });
  return { run, close: () => child.stdin.end() };
}

const chosen = Object.entries(bare).filter(([title]) => title.includes(options.only));
if (chosen.length === 0)
  throw new Error(`no operation has "${options.only}" in its title; there are: ${Object.keys(bare).join(", ")}`);

const executable = await build();
const guest =
  options.guest === undefined
    ? await up({ tethered: true })
    : { number: options.guest, ssh: sshToRunning(await chosenGuest(options.guest)) };
const { number, ssh } = guest;
const shell = shellOn(ssh.argv);
const sandbox = await makeSandbox("off", []);

/** Writes the connection files and starts csimux; what it checks by itself belongs to no call. */
async function startServer() {
  const running = await runningGuest(number);
  const key = running && (await readFile(imageIn(running.image).key, "utf8")).trim().split("\n");
  const hostKey = (await ssh.run(["cat", "/etc/ssh/ssh_host_ed25519_key.pub"])).stdout.split(" ").slice(0, 2).join(" ");
  const login = [
    ...["sshConnection:", "  host: 127.0.0.1", `  port: ${hostPort(number, guestPorts.ssh)}`, "  username: root"],
    ...[
      "  readyTimeout: 120000",
      `  hostKey: ${hostKey}`,
      "  privateKey: |",
      ...(key ?? []).map(line => `    ${line}`),
    ],
  ];
  for (const [name, share] of Object.entries(shares)) {
    const parents = ["v", "s"].map(folder => `${dataset(name)}/${folder}`);
    const zfs = [`  datasetParentName: ${parents[0]}`, `  detachedSnapshotsDatasetParentName: ${parents[1]}`];
    const lines = [`driver: zfs-generic-${name}`, ...login, "zfs:", ...zfs, ...share, ""];
    await writeFile(join(sandbox.connections, `${name}.yaml`), lines.join("\n"), { mode: 0o600 });
  }
  const flags = ["--metrics-address", metrics, "--health-interval=0"];
  return await startDaemon({ command: [executable], sandbox, flags });
}

const daemon = await startServer();
const client = csiClient(sandbox.socket);

/** The operation through csimux. */
async function csimux(title: string, name: string): Promise<void> {
  const [rpc, connection = ""] = title.split(" ");
  const { createVolume, deleteVolume, createSnapshot } = Controller.method;
  const limitMs = 600_000;
  if (rpc === "DeleteVolume") await client.call(deleteVolume, { volumeId: `v:${connection}/${name}` }, limitMs);
  else if (rpc === "CreateSnapshot")
    await client.call(createSnapshot, { sourceVolumeId: `v:${connection}/source`, name }, limitMs);
  else {
    const capacityRange = { requiredBytes: BigInt(bytes) };
    const request = { name, volumeCapabilities: [mountCapability], capacityRange, parameters: { connection } };
    await client.call(createVolume, request, limitMs);
  }
}

/** The number of scripts that csimux has sent to the host. */
async function roundTrips(): Promise<number> {
  const text = await (await fetch(`http://${metrics}/metrics`)).text();
  const counts = text.matchAll(/^csimux_command_duration_seconds_count\{.*\} (\d+)/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** The number of processes and threads that the host has started (proc_stat(5)). */
const started = async (): Promise<number> => Number(/^processes (\d+)$/m.exec(await shell.run("cat /proc/stat"))?.[1]);

/** The milliseconds of some work, and the processes that the host starts for it; the shell that counts them is two. */
async function measured(work: () => Promise<unknown>): Promise<{ readonly ms: number; readonly processes: number }> {
  const before = await started();
  const from = performance.now();
  await work();
  const ms = performance.now() - from;
  return { ms, processes: (await started()) - before - 2 };
}

/** Measures one operation both ways in turns, so that what else the machine does meets both. */
async function compared(title: string, line: (name: string) => string, times: number): Promise<readonly Figure[]> {
  const own: Awaited<ReturnType<typeof measured>>[] = [];
  const floor: typeof own = [];
  let trips = 0;
  for (let round = 0; round < times; round++) {
    floor.push(await measured(() => shell.run(line(`bare-${round}`))));
    const before = await roundTrips();
    own.push(await measured(() => csimux(title, `own-${round}`)));
    trips += (await roundTrips()) - before;
  }
  const ms = (all: typeof own): number => median(all.map(each => each.ms));
  const processes = (all: typeof own): number => median(all.map(each => each.processes));
  const inTwo = title.endsWith("Volume nfs") ? { target: 2 } : {};
  return [
    { what: `${title}: round trips`, value: trips / times, unit: "", ...inTwo },
    { what: "  csimux: p50", value: ms(own), unit: "ms" },
    { what: "  bare commands: p50", value: ms(floor), unit: "ms" },
    { what: "  csimux / bare commands", value: ms(own) / ms(floor), unit: "", target: 1.5 },
    { what: "  csimux: processes on the host", value: processes(own), unit: "", ...mostProcesses[title] },
    { what: "  bare commands: processes on the host", value: processes(floor), unit: "" },
  ];
}

try {
  // The datasets above the volumes, and the first login, belong to no figure.
  for (const connection of ["nfs", "iscsi"]) await csimux(`CreateVolume ${connection}`, "source");
  for (const [title, line] of chosen) console.log(`\n${table(await compared(title, line, options.quick ? 4 : 12))}`);
} finally {
  // A guest that stays up keeps no target.
  if (options.guest !== undefined) await csimux("DeleteVolume iscsi", "source").catch(() => {});
  shell.close();
  client.close();
  await daemon.stop();
  await sandbox.remove();
  const own = options.guest === undefined ? await runningGuest(number) : undefined;
  if (own) await down(own);
  else for (const name of ["nfs", "iscsi"]) await ssh.run(["zfs", "destroy", "-r", dataset(name)]);
}
