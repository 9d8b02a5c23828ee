import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Controller } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { type Double, startDouble } from "../../tests/fakes/truenas/double.ts";
import { type CsiClient, csiClient, mountCapability } from "../client.ts";
import { type Daemon, startDaemon } from "../daemon.ts";
import { makeSandbox } from "../sandbox.ts";
import { load, median } from "./load.ts";
import type { Scale } from "./setting.ts";
import type { Figure } from "./table.ts";
import { iscsiPeer, listPeer, nfsPeer, type Peer } from "./truenas-peer.ts";

/** What volumes of a TrueNAS cost: requests, how many of them wait for each other, time and CPU. */

const latencyMs = 2;
const listed = 2000;
const gib = 1n << 30n;

interface Stage {
  readonly double: Double;
  readonly daemon: Daemon;
  readonly client: CsiClient;
}

/** A double and a csimux with the connections "nfs" and "iscsi" on it. */
async function onStage<T>(executable: string, work: (stage: Stage) => Promise<T>): Promise<T> {
  const double = await startDouble({ version: "25.10", latencyMs });
  const sandbox = await makeSandbox("off", []);
  const http = { protocol: "http", host: "127.0.0.1", port: double.port, apiKey: "1-secret" };
  const zfs = (way: string) => ({
    datasetParentName: `tank/${way}`,
    detachedSnapshotsDatasetParentName: `tank/s-${way}`,
  });
  const iscsi = { targetPortal: "nas", targetGroups: [{ targetGroupPortalGroup: 1, targetGroupInitiatorGroup: 1 }] };
  const files = {
    nfs: { driver: "truenas-api-nfs", httpConnection: http, zfs: zfs("nfs"), nfs: { shareHost: "nas" } },
    iscsi: { driver: "truenas-api-iscsi", httpConnection: http, zfs: zfs("iscsi"), iscsi },
  };
  for (const [name, file] of Object.entries(files))
    await writeFile(join(sandbox.connections, `${name}.yaml`), JSON.stringify(file));
  const daemon = await startDaemon({ command: [executable], sandbox });
  const client = csiClient(sandbox.socket);
  try {
    return await work({ double, daemon, client });
  } finally {
    client.close();
    await daemon.stop();
    await sandbox.remove();
    await double.close();
  }
}

/**
 * Requests, and how many times one had to wait for an answer: those that come together count as one. csimux speaks JSON-RPC, its peer
 * REST, so that what csimux asks by itself meanwhile is not counted for the peer.
 */
function counted(
  { requests: all }: Double,
  protocol: "rpc" | "rest",
): { readonly requests: number; readonly trips: number } {
  const requests = all.filter(each => each.protocol === protocol);
  const starts = requests.filter(({ at }, index) => at - (requests[index - 1]?.at ?? -latencyMs) > latencyMs * 0.75);
  return { requests: requests.length, trips: starts.length };
}

/** One operation often enough, on csimux and as its peer does it. */
async function compared(
  what: string,
  { double, daemon }: Stage,
  count: number,
  own: (index: number) => Promise<unknown>,
  peer: (index: number) => Promise<unknown>,
  { target, peers = count }: { readonly target?: number; readonly peers?: number } = {},
): Promise<readonly Figure[]> {
  double.requests.length = 0;
  const mine = await load(daemon.pid, count, 1, own);
  const ours = counted(double, "rpc");
  double.requests.length = 0;
  const other = await load(daemon.pid, peers, 1, peer);
  const theirs = counted(double, "rest");
  const each = (all: number): number => all / count;
  const peerRequests = theirs.requests / peers;
  return [
    {
      what: `TrueNAS, ${what}: requests`,
      value: each(ours.requests),
      unit: "",
      peer: peerRequests,
      ...(target === undefined ? {} : { target: peerRequests * target }),
    },
    { what: "  round trips", value: each(ours.trips), unit: "", peer: theirs.trips / peers },
    { what: "  p50", value: median(mine.times), unit: "ms", peer: median(other.times) },
    { what: "  CPU", value: mine.cpu, unit: "ms" },
  ];
}

/** Volumes made and deleted, and snapshots, by one protocol. */
async function lives(stage: Stage, way: "nfs" | "iscsi", peer: Peer, count: number): Promise<readonly Figure[]> {
  const { client } = stage;
  const create = (name: string) =>
    client.call(Controller.method.createVolume, {
      name,
      parameters: { connection: way },
      capacityRange: { requiredBytes: gib },
      volumeCapabilities: [mountCapability],
    });
  const remove = (name: string) => client.call(Controller.method.deleteVolume, { volumeId: `v:${way}/${name}` });
  const snapshot = (name: string, sourceVolumeId: string) =>
    client.call(Controller.method.createSnapshot, { name, sourceVolumeId });
  for (let index = 0; index < 10; index++) {
    await create(`warm-${index}`);
    await remove(`warm-${index}`);
  }
  const at = (index: number): string => `pvc-${index}`;
  const made = await compared(
    `create over ${way}`,
    stage,
    count,
    index => create(at(index)),
    index => peer.create(at(index)),
    { target: 0.5 },
  );
  const taken =
    way === "iscsi"
      ? []
      : await compared(
          "snapshot",
          stage,
          count,
          index => snapshot(`snap-${index}`, `v:${way}/keeper`),
          index => peer.snapshot(at(0), `snap-${index}`),
        );
  stage.double.state.snapshots = {};
  const gone = await compared(
    `delete over ${way}`,
    stage,
    count,
    index => remove(at(index)),
    index => peer.delete(at(index)),
    { target: 0.5 },
  );
  return [...made, ...taken, ...gone];
}

/** Puts as many volumes beside the first one as a large cluster has. */
function crowd({ state }: Double, of: string, beside: string): void {
  const first = state.datasets[of];
  if (!first) throw new Error(`${of} is not there`);
  for (let index = 1; index < listed; index++) {
    const name = `${beside}/crowd-${index}`;
    const user = { ...first.user, "democratic-csi:csi_volume_name": `crowd-${index}` };
    state.datasets[name] = { ...first, name, user, native: { ...first.native } };
  }
}

/** Figures of volumes on TrueNAS, beside those of democratic-csi's sequence of requests. */
export const truenas = (executable: string, scale: Scale): Promise<readonly Figure[]> =>
  onStage(executable, async stage => {
    const { double, client } = stage;
    const keeper = { parameters: { connection: "nfs" }, volumeCapabilities: [mountCapability] };
    await client.call(Controller.method.createVolume, { ...keeper, name: "keeper" });
    const few = [
      ...(await lives(stage, "nfs", nfsPeer(double), scale.remote)),
      ...(await lives(stage, "iscsi", iscsiPeer(double), scale.remote)),
    ];
    crowd(double, "tank/nfs/keeper", "tank/nfs");
    crowd(double, "tank/nfs/keeper", "tank/peer");
    const list = () => client.call(Controller.method.listVolumes, {});
    const among = (index: number) =>
      client.call(Controller.method.createSnapshot, { name: `among-${index}`, sourceVolumeId: "v:nfs/keeper" });
    const peer = nfsPeer(double);
    const size = `among ${listed.toLocaleString("en-US")} volumes`;
    const runs = Math.max(3, scale.remote / 10);
    return [
      ...few,
      // One request for each of the two connections.
      ...(await compared(`list ${size}`, stage, runs, list, () => listPeer(double), { target: 2, peers: 1 })),
      ...(await compared(`snapshot ${size}`, stage, runs, among, index => peer.snapshot("crowd-1", `among-${index}`), {
        peers: 1,
      })),
    ];
  });
