import { setTimeout as pause } from "node:timers/promises";
import { median } from "../bench/load.ts";
import { cpuMs } from "../bench/process.ts";
import type { Figure } from "../bench/table.ts";
import type { Contestants } from "./compare.ts";
import { operations, snapshotted } from "./operations.ts";
import { datasetOf, type Subject } from "./subject.ts";

/** How often Probe is asked, in milliseconds. */
const probeEveryMs = 50;

/** Asks for Probe again and again until told to stop; answers the times in milliseconds. */
export function watchProbe({ probe }: Subject): () => Promise<readonly number[]> {
  const times: number[] = [];
  let over = false;
  const watching = (async () => {
    while (!over) {
      const from = performance.now();
      await probe();
      times.push(performance.now() - from);
      await pause(probeEveryMs);
    }
  })();
  return async () => {
    over = true;
    await watching;
    return times;
  };
}

/** Many volumes asked for at once, beside the same number made by hand one after another; and deleted at once. */
export async function crowd({ subject, floor }: Contestants, atOnce: number): Promise<readonly Figure[]> {
  const [create, remove] = operations;
  if (!create || !remove) throw new Error("no operations");
  const names = (what: string): readonly string[] => Array.from({ length: atOnce }, (_, at) => `${what}-${at}`);
  const timed = async (work: () => Promise<unknown>): Promise<number> => {
    const from = performance.now();
    await work();
    return (performance.now() - from) / 1000;
  };
  const byHand = await timed(async () => {
    for (const name of names("hand")) await create.floor(floor, name);
  });
  const handGone = await timed(async () => {
    for (const name of names("hand")) await remove.floor(floor, name);
  });
  const stop = watchProbe(subject);
  const made = await timed(() => Promise.all(names("crowd").map(name => create.csimux(subject, name))));
  const gone = await timed(() => Promise.all(names("crowd").map(name => remove.csimux(subject, name))));
  const probes = await stop();
  return [
    { what: `${atOnce} CreateVolume nfs at once`, value: made, unit: "s", target: 2 * byHand },
    { what: "  by hand, one after another", value: byHand, unit: "s" },
    { what: `${atOnce} DeleteVolume nfs at once`, value: gone, unit: "s", target: 2 * handGone },
    { what: "  by hand, one after another", value: handGone, unit: "s" },
    { what: "Probe in the meantime: p50", value: median(probes), unit: "ms" },
    { what: `  the slowest of ${probes.length}`, value: Math.max(...probes), unit: "ms", target: 50 },
  ];
}

/** How many snapshots the full pool has at least. */
const fullOfSnapshots = 10_000;

/** Fills the pool by hand: so many finished volumes that are not mounted, and snapshots of all of them. Answers how many. */
async function populate({ ssh }: Contestants, volumes: number): Promise<number> {
  const parent = `${datasetOf("nfs")}/v`;
  const script = `
parent=$1 from=$2 to=$3
i=$from
while [ $i -le $to ]; do
  zfs create -o canmount=noauto -o refquota=67108864 -o democratic-csi:managed_resource=true \
    -o democratic-csi:csi_volume_name=many-$i -o democratic-csi:provision_success=true \
    -o democratic-csi:csi_share_volume_context='{"node_attach_driver":"nfs","server":"127.0.0.1","share":"/x"}' \
    -o democratic-csi:volume_context_provisioner_driver=zfs-generic-nfs $parent/many-$i || exit 1
  i=$((i+1))
done`;
  const middle = Math.floor(volumes / 2);
  const parts = [
    [1, middle],
    [middle + 1, volumes],
  ].map(([from, to]) =>
    ssh.run(["sh", "-c", script, "populate", parent, String(from), String(to)], { timeoutMs: 3_600_000 }),
  );
  for (const { code, stderr } of await Promise.all(parts)) if (code !== 0) throw new Error(`the pool: ${stderr}`);
  const rounds = Math.ceil(fullOfSnapshots / volumes);
  for (let round = 1; round <= rounds; round++) {
    const { code, stderr } = await ssh.run(["zfs", "snapshot", "-r", `${parent}@round-${round}`]);
    if (code !== 0) throw new Error(`the snapshots: ${stderr}`);
  }
  return rounds * volumes;
}

/** Times of some snapshots of one volume, in milliseconds. */
async function snapshots(subject: Subject, what: string): Promise<readonly number[]> {
  const times: number[] = [];
  for (let at = 0; at < 10; at++) {
    const from = performance.now();
    await subject.snapshot("nfs", snapshotted, `${what}-${at}`);
    times.push(performance.now() - from);
  }
  return times;
}

/** A pool with many volumes and snapshots: what a snapshot and a listing take then. */
export async function manyVolumes(all: Contestants, volumes: number): Promise<readonly Figure[]> {
  const { subject, floor } = all;
  const few = median(await snapshots(subject, "few"));
  process.stderr.write(`${volumes} volumes are made by hand ...\n`);
  const taken = await populate(all, volumes);
  const many = median(await snapshots(subject, "many"));
  const stop = watchProbe(subject);
  const cpu = cpuMs(subject.daemon.pid);
  const trips = await subject.roundTrips();
  const from = performance.now();
  const listed = await subject.list();
  const seconds = (performance.now() - from) / 1000;
  const used = cpuMs(subject.daemon.pid) - cpu;
  const commands = (await subject.roundTrips()) - trips;
  const probes = await stop();
  const began = performance.now();
  await floor.run(
    `zfs list -Hp -d 1 -t filesystem -o name,refquota,democratic-csi:csi_share_volume_context ${datasetOf("nfs")}/v >/dev/null`,
  );
  return [
    { what: "CreateSnapshot, few snapshots in the pool: p50", value: few, unit: "ms" },
    { what: `  with ${taken} snapshots: p50`, value: many, unit: "ms", target: 1.5 * few },
    { what: "ListVolumes: volumes", value: listed, unit: "", target: volumes, atLeast: true },
    { what: "  took", value: seconds, unit: "s" },
    { what: "  zfs list by hand", value: (performance.now() - began) / 1000, unit: "s" },
    { what: "  csimux's own CPU", value: used, unit: "ms", target: 1000 },
    { what: "  round trips over both connections", value: commands, unit: "", target: 2 },
    { what: "  the slowest Probe in the meantime", value: Math.max(...probes), unit: "ms", target: 50 },
  ];
}
