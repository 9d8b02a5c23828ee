import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { DescMethodUnary } from "@bufbuild/protobuf";
import { Controller, Identity } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { mebibytes } from "../../tests/serve/world.ts";
import { type CsiClient, csiClient, mountCapability } from "../client.ts";
import { type Daemon, startDaemon } from "../daemon.ts";
import type { Guest } from "../lab/guest.ts";
import { runningGuest } from "../lab/guests.ts";
import { guestPorts, hostPort } from "../lab/machine.ts";
import { imageIn } from "../lab/place.ts";
import { makeSandbox } from "../sandbox.ts";

/** A csimux on this machine whose storage host is the guest, reached by ssh. */
export interface Subject {
  readonly daemon: Daemon;
  readonly client: CsiClient;
  create(connection: string, name: string): Promise<unknown>;
  remove(connection: string, name: string): Promise<unknown>;
  snapshot(connection: string, volume: string, name: string): Promise<unknown>;
  list(): Promise<number>;
  probe(): Promise<unknown>;
  /** How many scripts have gone to the host so far. */
  roundTrips(): Promise<number>;
  end(): Promise<void>;
}

/** Where csimux tells its figures: a port that nothing else of the project uses. */
const metrics = "127.0.0.1:19478";

/** Properties of a target that lets everybody in. */
const open = ["authentication: 0", "generate_node_acls: 1", "cache_dynamic_acls: 1", "demo_mode_write_protect: 0"];

const shares: Readonly<Record<string, readonly string[]>> = {
  nfs: [
    "  datasetEnableQuotas: true",
    '  datasetPermissionsMode: "0777"',
    "  datasetPermissionsUser: 0",
    "  datasetPermissionsGroup: 0",
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
    "    basename: iqn.2025-01.lab.csimux:bench",
    "    tpg:",
    "      attributes:",
    ...open.map(line => `        ${line}`),
  ],
};

/** The dataset of the volumes of a connection. */
export const datasetOf = (connection: string): string => `tank/bench-${connection}`;

async function sshLines({ number, ssh }: Guest): Promise<readonly string[]> {
  const guest = await runningGuest(number);
  const key = guest && (await readFile(imageIn(guest.image).key, "utf8")).trim().split("\n");
  const hostKey = (await ssh.run(["cat", "/etc/ssh/ssh_host_ed25519_key.pub"])).stdout.split(" ").slice(0, 2).join(" ");
  return [
    "sshConnection:",
    "  host: 127.0.0.1",
    `  port: ${hostPort(number, guestPorts.ssh)}`,
    "  username: root",
    "  readyTimeout: 120000",
    `  hostKey: ${hostKey}`,
    "  privateKey: |",
    ...(key ?? []).map(line => `    ${line}`),
  ];
}

const count = (text: string): number =>
  [...text.matchAll(/^csimux_command_duration_seconds_count\{.*\} (\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);

/** Starts csimux with a connection for NFS and one for iSCSI. */
export async function startSubject(executable: string, guest: Guest): Promise<Subject> {
  const ssh = await sshLines(guest);
  const sandbox = await makeSandbox("off", []);
  for (const [name, share] of Object.entries(shares)) {
    const parents = [
      `  datasetParentName: ${datasetOf(name)}/v`,
      `  detachedSnapshotsDatasetParentName: ${datasetOf(name)}/s`,
    ];
    const lines = [`driver: zfs-generic-${name}`, ...ssh, "zfs:", ...parents, ...share, ""];
    await writeFile(join(sandbox.connections, `${name}.yaml`), lines.join("\n"), { mode: 0o600 });
  }
  // What it looks after by itself belongs to no call.
  const daemon = await startDaemon({
    command: [executable],
    sandbox,
    flags: ["--metrics-address", metrics, "--health-interval=0"],
  });
  const client = csiClient(sandbox.socket);
  const ask = (method: DescMethodUnary, request: object) => client.call(method, request as never, 600_000);
  const { createVolume, deleteVolume, createSnapshot, listVolumes } = Controller.method;
  return {
    daemon,
    client,
    create: (connection, name) =>
      ask(createVolume, {
        name,
        volumeCapabilities: [mountCapability],
        capacityRange: mebibytes(64),
        parameters: { connection },
      }),
    remove: (connection, name) => ask(deleteVolume, { volumeId: `v:${connection}/${name}` }),
    snapshot: (connection, volume, name) => ask(createSnapshot, { sourceVolumeId: `v:${connection}/${volume}`, name }),
    list: async () =>
      ((await ask(listVolumes, {})) as unknown as { readonly entries: readonly unknown[] }).entries.length,
    probe: () => client.call(Identity.method.probe, {}),
    roundTrips: async () => count(await (await fetch(`http://${metrics}/metrics`)).text()),
    async end() {
      client.close();
      await daemon.stop();
      await sandbox.remove();
    },
  };
}
