import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Controller } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { startDsm } from "../../tests/fakes/dsm/double.ts";
import { startDouble } from "../../tests/fakes/truenas/double.ts";
import type { Version } from "../../tests/fakes/truenas/versions.ts";
import { fakeZfs } from "../../tests/fakes/zfs/pools.ts";
import { type CsiClient, csiClient, mountCapability } from "../client.ts";
import { startDaemon } from "../daemon.ts";
import { engineSettings } from "../engine.ts";
import { type Figure, load } from "../figures.ts";
import { connectionFile, makeSandbox } from "../sandbox.ts";

// Many volumes and snapshots on one connection: what lists, health checks and changes cost then. The storage systems are the doubles of the
// tests, so the time is that of csimux and of a double; a real system needs its own.

/** A storage system with a connection. */
interface Storage {
  readonly file: string;
  readonly env?: Readonly<Record<string, string>>;
  /** The requests or programs until now. */
  requests(): number;
  /** The bytes that it has sent until now. */
  bytes?(): number;
  /** Makes the only volume and its snapshot `count` ones; absent where csimux has to make them. */
  multiply?(count: number): void;
  close(): Promise<void>;
}

/** Passes a port on and counts what comes back. */
async function counted(port: number) {
  let bytes = 0;
  const server = createServer(socket => {
    const storage = connect(port, "127.0.0.1");
    for (const end of [socket, storage]) end.on("error", () => {});
    storage.on("data", chunk => {
      bytes += chunk.length;
    });
    socket.pipe(storage).pipe(socket);
  });
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const own = typeof address === "object" && address !== null ? address.port : 0;
  return { port: own, bytes: () => bytes, close: () => server.close() };
}

const lines = (...all: readonly string[]): string => `${all.join("\n")}\n`;
const reached = (port: number, login: string): string =>
  `httpConnection: {protocol: http, host: 127.0.0.1, port: ${port}, ${login}}`;
const parents = ["zfs:", "  datasetParentName: tank/k8s/v", "  detachedSnapshotsDatasetParentName: tank/k8s/s"];

const truenas = (version: Version) => async (): Promise<Storage> => {
  const double = await startDouble({ version });
  const way = await counted(double.port);
  const { datasets, snapshots, tables } = double.state;
  return {
    file: lines("driver: truenas-api-nfs", reached(way.port, "apiKey: 1-secret"), ...parents, "nfs: {shareHost: nas}"),
    requests: () => double.requests.length,
    bytes: way.bytes,
    multiply(count) {
      const [volume] = Object.values(datasets).filter(({ name }) => name.startsWith("tank/k8s/v/"));
      const [snapshot] = Object.values(snapshots);
      const [share] = tables.nfs;
      for (let n = 1; volume && snapshot && share && n < count; n++) {
        const name = `tank/k8s/v/pvc-${n}`;
        tables.nfs.push({ ...structuredClone(share), id: share.id + n, path: `/mnt/${name}` });
        datasets[name] = { ...volume, name, guid: String(1e9 + n) };
        snapshots[`${name}@${snapshot.name}`] = { ...snapshot, dataset: name, guid: String(2e9 + n) };
      }
    },
    async close() {
      way.close();
      await double.close();
    },
  };
};

async function synology(): Promise<Storage> {
  const dsm = await startDsm();
  dsm.state.habits.maxShares = 10_000;
  const way = await counted(dsm.port);
  const section = "nfs: {shareHost: nas, namePrefix: k8s-, allowedHosts: [10.0.0.0/24]}";
  return {
    file: lines("driver: synology-nfs", reached(way.port, "username: csi, password: secret-pw"), section),
    requests: () => dsm.requests.length,
    bytes: way.bytes,
    multiply(count) {
      const [share] = dsm.state.shares.values();
      for (let n = 1; share && n < count; n++)
        dsm.state.shares.set(`k8s-pvc-${n}`, { ...share, name: `k8s-pvc-${n}`, uuid: crypto.randomUUID() });
    },
    async close() {
      way.close();
      await dsm.close();
    },
  };
}

async function zfs(): Promise<Storage> {
  const fake = await fakeZfs();
  let programs = 0;
  return {
    file: lines("driver: zfs-local-dataset", ...parents),
    env: { PATH: `${fake.bin}:${process.env["PATH"]}` },
    requests() {
      programs += fake.commands().length;
      return programs;
    },
    multiply: count =>
      fake.with(({ state: { things } }) => {
        const [volume] = Object.values(things).filter(({ name }) => name.startsWith("tank/k8s/v/"));
        const [snapshot] = Object.values(things).filter(({ type }) => type === "snapshot");
        for (let n = 1; volume && snapshot && n < count; n++) {
          const [name, taken] = [`tank/k8s/v/pvc-${n}`, `tank/k8s/v/pvc-${n}@${snapshot.name.split("@")[1]}`];
          things[name] = { ...volume, name, guid: String(1e9 + n) };
          things[taken] = { ...snapshot, name: taken, guid: String(2e9 + n) };
        }
      }),
    close: () => fake.close(),
  };
}

async function folders(): Promise<Storage> {
  const sandbox = await makeSandbox("off", []);
  await mkdir(join(sandbox.folder, "base"));
  return {
    file: connectionFile(join(sandbox.folder, "base"), "off"),
    requests: () => 0,
    close: async () => void (await sandbox.remove()),
  };
}

const storages: Readonly<Record<string, readonly [open: () => Promise<Storage>, most: number]>> = {
  // The doubles of these and of ZFS look for what is below each row in all of them, and take longer than a listing may with more.
  "TrueNAS 24.10": [truenas("24.10"), 2000],
  "TrueNAS 25.04": [truenas("25.04"), 2000],
  "TrueNAS 25.10": [truenas("25.10"), 5000],
  "TrueNAS 26.0": [truenas("26.0"), 5000],
  "Synology folders": [synology, 500],
  "ZFS, programs": [zfs, 200],
  folders: [folders, 5000],
};

const slowMs = 600_000;
const create = async (client: CsiClient, name: string): Promise<string> => {
  const request = { name, parameters: { connection: "c" }, capacityRange: { requiredBytes: 1n << 20n } };
  const { volume } = await client.call(
    Controller.method.createVolume,
    { ...request, volumeCapabilities: [mountCapability] },
    slowMs,
  );
  return volume?.volumeId ?? "";
};
const snapshot = (client: CsiClient, name: string, sourceVolumeId: string) =>
  client.call(Controller.method.createSnapshot, { name, sourceVolumeId }, slowMs);

async function measured(
  executable: string,
  title: string,
  open: () => Promise<Storage>,
  count: number,
  roundMs: number,
) {
  const storage = await open();
  const sandbox = await makeSandbox("off", []);
  await writeFile(join(sandbox.connections, "c.yaml"), storage.file);
  const env = { ...engineSettings, ...storage.env };
  const flags = ["--health-interval", String(roundMs / 1000)];
  const daemon = await startDaemon({ command: [executable], sandbox, env, flags });
  const client = csiClient(sandbox.socket);
  const figures: Figure[] = [];
  /** What some work costs. */
  const cost = async (what: string, work: () => Promise<unknown>, times = 1): Promise<void> => {
    const [requests, bytes, from] = [storage.requests(), storage.bytes?.() ?? 0, performance.now()];
    await work();
    const seconds = (performance.now() - from) / 1000;
    figures.push({ what: `${title}: ${what}`, value: seconds / times, unit: "s" });
    figures.push({ what: "  requests or programs", value: (storage.requests() - requests) / times, unit: "" });
    if (storage.bytes)
      figures.push({ what: "  sent by the storage", value: (storage.bytes() - bytes) / times / 1e6, unit: "MB" });
  };
  try {
    const made = storage.multiply ? 1 : count;
    await load(daemon.pid, made, 8, async n => snapshot(client, `s-${n}`, await create(client, `pvc-${n}`)));
    storage.multiply?.(count);
    const page = { maxEntries: 100 };
    await cost(`ListVolumes of ${count}`, () => client.call(Controller.method.listVolumes, {}, slowMs));
    await cost("ListVolumes, a page of 100", () => client.call(Controller.method.listVolumes, page, slowMs));
    await cost(`ListSnapshots of ${count}`, () => client.call(Controller.method.listSnapshots, {}, slowMs));
    await cost("ten volumes with snapshots made and deleted", () =>
      load(daemon.pid, 10, 2, async n => {
        const volumeId = await create(client, `more-${n}`);
        const { snapshot: taken } = await snapshot(client, `more-${n}`, volumeId);
        await client.call(Controller.method.deleteSnapshot, { snapshotId: taken?.snapshotId ?? "" }, slowMs);
        await client.call(Controller.method.deleteVolume, { volumeId }, slowMs);
      }),
    );
    await cost("idle, with two health checks", () => pause(2 * roundMs), 2);
    const status = readFileSync(`/proc/${daemon.pid}/status`, "utf8");
    const peak = Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
    return [...figures, { what: `${title}: most memory`, value: peak, unit: "MiB" }];
  } finally {
    client.close();
    await daemon.stop();
    await sandbox.remove();
    await storage.close();
  }
}

/** The figures of every storage with as many volumes as it has in practice; `quick`: with a tenth of them. */
export async function scale(executable: string, quick: boolean): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  for (const [title, [open, most]] of Object.entries(storages)) {
    process.stderr.write(`  ${title}\n`);
    figures.push(...(await measured(executable, title, open, quick ? most / 10 : most, quick ? 3000 : 10_000)));
  }
  return figures;
}
