import { localRunner } from "../../../../lib/io/local.ts";
import { localHost } from "../../../../lib/io/local-host.ts";
import type { CommandRunner } from "../../../../lib/io/runner.ts";
import { type CopyLife, type CopySide, livingRunner } from "../../../contract/copies/life.ts";
import type { StreamEndRig, StreamPairRig } from "../../../contract/copies/stream-world.ts";
import { type Double, startDouble } from "../../../fakes/truenas/double.ts";
import { datasetsOf } from "../../../fakes/truenas/on-zfs.ts";
import type { Version } from "../../../fakes/truenas/versions.ts";
import { zfsOf } from "../../../fakes/truenas/zfs-program.ts";
import { type FakeZfs, fakeZfs, inProcess } from "../../../fakes/zfs/pools.ts";
import {
  copyProperty,
  endOf,
  filesBelow,
  isPartOf,
  streamHands,
  thingsBelow,
  zfsEnd,
} from "../../zfs/copies/pair-rig.ts";
import type { ZfsOptions } from "../../zfs/zfs-rig.ts";
import { openOn, type Protocol, remainsOf } from "../rig.ts";
import { openOverSsh } from "../ssh-rig.ts";

/** A connection: of a ZFS driver; of TrueNAS with ZFS over ssh; or of TrueNAS with its API and `copies.sshConnection`. */
export type PairKind =
  | { readonly kind: "zfs"; readonly options: ZfsOptions }
  | { readonly kind: "ssh" | "api"; readonly protocol: Protocol; readonly version: Version };

/** A system: its pools, and what answers its API. */
interface System {
  readonly fake: FakeZfs;
  readonly double: Double | undefined;
  close(): Promise<void>;
}

async function systemOf(kind: PairKind): Promise<System> {
  const fake = await fakeZfs();
  const double =
    kind.kind === "zfs"
      ? undefined
      : await startDouble({ version: kind.version, ...(kind.kind === "ssh" && { elsewhere: datasetsOf(fake) }) });
  return {
    fake,
    double,
    async close() {
      await double?.close();
      await fake.close();
    },
  };
}

/** Credentials of processes: each has its own, by which its requests are known. */
let keys = 0;

/** The datasets of the API, their snapshots, and what copies keep there. */
const datasetsBelow = ({ state }: Double, parent: string): readonly string[] =>
  [
    ...Object.values(state.datasets).map(({ name, user }) => ({ name, user, holds: 0 })),
    ...Object.entries(state.snapshots).map(([name, { user, holds }]) => ({ name, user, holds })),
  ]
    .filter(({ name }) => name.startsWith(`${parent}/`))
    .flatMap(({ name, user, holds }) => [
      name,
      ...(holds > 0 ? [`${name} is held by csimux-copy`] : []),
      ...Object.keys(user)
        .filter(key => copyProperty.test(key))
        .map(key => `${name} has ${key}`),
    ]);

const isShare = (remains: string): boolean => /^[a-zA-Z]+ /.test(remains);

function endOn(
  side: CopySide,
  { fake, double }: System,
  kind: PairKind,
  machine: string,
  parent: string,
): StreamEndRig {
  if (kind.kind === "zfs" || !double) {
    const { options } = kind.kind === "zfs" ? kind : { options: { driver: "" } };
    return zfsEnd(side, fake, "tank/k", { ...options, ssh: machine });
  }
  const { protocol } = kind;
  const others = localRunner({ env: { PATH: `${fake.bin}:/usr/sbin:/usr/bin:/sbin:/bin` } });
  const runner: CommandRunner = kind.kind === "api" ? zfsOf(double.state, fake, others) : inProcess(fake, others);
  const open = (life: CopyLife) => {
    const key = `${++keys}-process`;
    double.accounts.addKey(key);
    double.faults.decide(key, () => life.next(side));
    const host = localHost(livingRunner(runner, fake.streams, side, life));
    return kind.kind === "api"
      ? openOn(double, protocol, { key, host, machine, zfs: { datasetParentName: parent } })
      : openOverSsh({ double, host, name: `truenas-${protocol}`, protocol, key, machine });
  };
  const shares = () => remainsOf(double).filter(isShare);
  if (kind.kind === "ssh")
    return endOf(side, open, {
      ...filesBelow(fake, parent),
      everything: async () => [...thingsBelow(fake, parent), ...shares()].sort(),
    });
  return endOf(side, open, {
    async write(id, content) {
      const dataset = double.state.datasets[`${parent}/${id}`];
      if (dataset) dataset.content = content;
    },
    read: async id => double.state.datasets[`${parent}/${id}`]?.content ?? "",
    everything: async () =>
      [
        ...datasetsBelow(double, parent),
        ...shares().filter(each => protocol !== "nfs" || each.includes(parent)),
      ].sort(),
  });
}

const parentOf = ({ kind }: PairKind): string => (kind === "api" ? "tank/k8s/v" : "tank/k/v");

/** Two connections, of which one is to TrueNAS: to two systems, or to one with parents of their own. */
export async function trueNasPair(from: PairKind, to: PairKind, systems: 1 | 2): Promise<StreamPairRig> {
  const there = await systemOf(from);
  const here = systems === 1 ? there : await systemOf(to);
  if (systems === 2)
    here.fake.with(pools => {
      pools.state.next = 500_000;
    });
  const source = `${parentOf(from)}/source`;
  const hands = streamHands(there.fake, here.fake, parentOf(from));
  return {
    source: endOn("source", there, from, "one", parentOf(from)),
    target: endOn("target", here, to, systems === 1 ? "one" : "two", systems === 1 ? "tank/k8s/w" : parentOf(to)),
    ...hands,
    destroy(what) {
      if (from.kind !== "api" || !there.double) return hands.destroy(what);
      const { datasets, snapshots } = there.double.state;
      for (const things of [datasets, snapshots])
        for (const name of Object.keys(things)) if (isPartOf(source, what, name)) delete things[name];
    },
    async end() {
      await there.close();
      if (systems === 2) await here.close();
    },
  };
}
