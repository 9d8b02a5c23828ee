import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Command } from "commander";
import { Controller } from "../lib/csi/gen/csi/v1/csi_pb.ts";
import { keep } from "./bench/keep.ts";
import * as bench from "./bench/operations.ts";
import { compared, shellOn } from "./bench/turns.ts";
import { build } from "./build.ts";
import { csiClient, mountCapability } from "./client.ts";
import { startDaemon } from "./daemon.ts";
import { type Figure, table } from "./figures.ts";
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
  .option("--targets <numbers>", "how many targets of LIO there are already, one after another", "1")
  .option("--quick", "fewer of everything")
  .option("--keep", "put the figures into the guide")
  .parse()
  .opts<{
    readonly guest?: number;
    readonly quick?: true;
    readonly keep?: true;
    readonly only: string;
    readonly targets: string;
  }>();

const metrics = "127.0.0.1:19478";
const counts = options.targets
  .split(/[ ,]+/)
  .filter(Boolean)
  .map(Number)
  .toSorted((a, b) => a - b);
if (counts.length === 0 || counts.some(count => !(Number.isInteger(count) && count >= 1 && count <= 10_000)))
  throw new Error(`--targets "${options.targets}" must be numbers from 1 to 10000`);

const titleOf = ({ rpc, connection }: bench.Operation): string => `${rpc} ${connection}`;
const chosen = bench.operations.filter(each => titleOf(each).includes(options.only));
if (chosen.length === 0)
  throw new Error(
    `no operation has "${options.only}" in its title; there are: ${bench.operations.map(titleOf).join(", ")}`,
  );

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
  for (const name of bench.connections)
    await writeFile(join(sandbox.connections, `${name}.yaml`), bench.connectionFile(name, login), { mode: 0o600 });
  const flags = ["--metrics-address", metrics, "--health-interval=0"];
  return await startDaemon({ command: [executable], sandbox, flags });
}

const daemon = await startServer();
const client = csiClient(sandbox.socket);

/** The operation through csimux. */
async function csimux({ rpc, connection }: Pick<bench.Operation, "rpc" | "connection">, name: string): Promise<void> {
  const { createVolume, deleteVolume, createSnapshot } = Controller.method;
  const limitMs = 600_000;
  if (rpc === "DeleteVolume") await client.call(deleteVolume, { volumeId: `v:${connection}/${name}` }, limitMs);
  else if (rpc === "CreateSnapshot")
    await client.call(createSnapshot, { sourceVolumeId: `v:${connection}/source`, name }, limitMs);
  else {
    const capacityRange = { requiredBytes: BigInt(bench.bytes) };
    const request = { name, volumeCapabilities: [mountCapability], capacityRange, parameters: { connection } };
    await client.call(createVolume, request, limitMs);
  }
}

/** The number of scripts that csimux has sent to the host. */
async function sent(): Promise<number> {
  const text = await (await fetch(`http://${metrics}/metrics`)).text();
  const found = text.matchAll(/^csimux_command_duration_seconds_count\{.*\} (\d+)/gm);
  return [...found].reduce((sum, [, count]) => sum + Number(count), 0);
}

let targets = 1;

const numbered = (count: number): string => `${count.toLocaleString("en-US")} ${count === 1 ? "target" : "targets"}`;

/** Measures operations and prints their figures. */
async function measure(operations: readonly bench.Operation[], note = ""): Promise<readonly Figure[]> {
  const all: Figure[] = [];
  for (const operation of operations) {
    const figures = await compared(
      shell,
      {
        title: `${titleOf(operation)}${note}`,
        own: name => csimux(operation, name),
        sent,
        bare: operation.bare,
        // Its start takes the longer the more targets there are.
        tool: targets > 100 ? undefined : operation.tool,
        targets: operation,
      },
      options.quick ? 4 : 12,
    );
    console.log(`\n${table(figures)}`);
    all.push(...figures);
  }
  return all;
}

/** Operations of LIO with each number of targets, and how much longer the last takes than the first. */
async function measureTargets(operations: readonly bench.Operation[]): Promise<readonly Figure[]> {
  const all: Figure[] = [];
  for (const count of operations.length > 0 ? counts : []) {
    if (count > targets) await shell.run(bench.filled(targets, count, counts.at(-1) ?? count));
    targets = Math.max(targets, count);
    all.push(...(await measure(operations, `, ${numbered(count)}`)));
  }
  const [first = 1, last = 1] = [counts[0], counts.at(-1)];
  const growth = operations.map(operation => {
    const of = all.filter(({ what }) => what.startsWith(titleOf(operation)));
    const value = (of.at(-1)?.value ?? Number.NaN) / (of[0]?.value ?? Number.NaN);
    return { what: `${titleOf(operation)}, ${numbered(last)} / ${numbered(first)}`, value, unit: "", target: 1.3 };
  });
  if (first === last) return all;
  console.log(`\n${table(growth)}`);
  return [...all, ...growth];
}

try {
  await shell.run(bench.prepared());
  // The datasets above the volumes, and the first login, belong to no figure.
  for (const connection of bench.connections) await csimux({ rpc: "CreateVolume", connection }, "source");
  const ofLio = (each: bench.Operation): boolean => each.connection === "iscsi";
  const others = await measure(chosen.filter(each => !ofLio(each)));
  const figures = [...others, ...(await measureTargets(chosen.filter(ofLio)))];
  if (options.keep) await keep("bench-lab", figures);
} finally {
  // A guest that stays up keeps no target.
  if (options.guest !== undefined) {
    for (const connection of ["iscsi", "nvmeof"] as const)
      await csimux({ rpc: "DeleteVolume", connection }, "source").catch(() => {});
    await shell.run(bench.emptied(targets)).catch(() => {});
  }
  shell.close();
  client.close();
  await daemon.stop();
  await sandbox.remove();
  const own = options.guest === undefined ? await runningGuest(number) : undefined;
  if (own) await down(own);
  else for (const name of bench.connections) await ssh.run(["zfs", "destroy", "-r", bench.dataset(name)]);
}
