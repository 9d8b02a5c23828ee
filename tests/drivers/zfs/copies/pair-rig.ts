import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { copyByStream } from "../../../../lib/copies/zfs-send.ts";
import { localRunner } from "../../../../lib/io/local.ts";
import { localHost } from "../../../../lib/io/local-host.ts";
import { type CopyLife, type CopySide, copyLife, livingRunner } from "../../../contract/copies/life.ts";
import type { Destroyed, StreamEndRig, StreamPairRig } from "../../../contract/copies/stream-world.ts";
import { type FakeZfs, fakeZfs, inProcess } from "../../../fakes/zfs/pools.ts";
import { openZfs, type ZfsOptions } from "../zfs-rig.ts";

/** The properties of copies that go with them. */
export const copyProperty = /^csimux:(?:copy(?:-[a-z2-7]{16})?|landing)$/;

/** Everything in a model below a dataset that a command can see: names, holds, and the properties of copies. */
export const thingsBelow = (fake: FakeZfs, parent: string): readonly string[] =>
  fake.with(pools =>
    pools
      .all()
      .filter(({ name }) => name.startsWith(`${parent}/`))
      .flatMap(({ name, holds = [], own }) => [
        name,
        ...holds.map(tag => `${name} is held by ${tag}`),
        ...Object.keys(own)
          .filter(key => copyProperty.test(key))
          .map(key => `${name} has ${key}`),
      ]),
  );

/** What copies have left, of everything. */
const leftOf = (things: readonly string[]): readonly string[] =>
  things.filter(each => /csimux[-:](?:copy|land)/.test(each));

/** Whether a person destroys this dataset or snapshot with the volume `source`, the snapshots of its copies, or all its snapshots. */
export const isPartOf = (source: string, what: Destroyed, name: string): boolean =>
  name.startsWith(`${source}@${what === "protected" ? "csimux-copy-" : ""}`) || (what === "volume" && name === source);

/** What tests do to the streams from one model to another, and to the pools below them. */
export const streamHands = (
  from: FakeZfs,
  to: FakeZfs,
  parent: string,
): Pick<StreamPairRig, "hold" | "cutAfter" | "fill" | "sends" | "destroy" | "stream"> => ({
  stream: copyByStream,
  hold() {
    const { promise, resolve } = Promise.withResolvers<void>();
    from.streams.middle = () => promise;
    return {
      isHeld: () => to.streams.receiving.size > 0,
      release() {
        from.streams.middle = async () => {};
        resolve();
      },
    };
  },
  cutAfter: bytes => to.faults({ cutReceive: bytes }),
  fill(isFull) {
    to.with(pools => {
      const { tank } = pools.state.pools;
      if (tank) tank.bytes = isFull ? 0 : 2 ** 40;
    });
  },
  sends: () => from.commands().filter(line => /^zfs send (?!-n)/.test(line)),
  destroy: what =>
    from.with(pools => {
      for (const each of pools.all()) if (isPartOf(`${parent}/source`, what, each.name)) pools.remove(each);
    }),
});

/** A storage of a model. `cut` counts the steps of all processes without a life of their own. */
export function endOf(
  side: CopySide,
  open: (life: CopyLife) => ReturnType<StreamEndRig["open"]>,
  rest: Omit<StreamEndRig, "open" | "openIn" | "cut" | "remains">,
): StreamEndRig {
  let left = 0;
  let failed = false;
  const usual: CopyLife = {
    ...copyLife(),
    next(of) {
      if (of !== side || left === 0 || --left > 0) return undefined;
      failed = true;
      return "before";
    },
  };
  return {
    ...rest,
    open: () => open(usual),
    openIn: open,
    remains: async () => leftOf(await rest.everything()),
    cut(at) {
      const before = failed;
      left = at;
      failed = false;
      return before;
    },
  };
}

/** The content of volumes that are datasets of a model below `parent`. */
export function filesBelow(fake: FakeZfs, parent: string): Pick<StreamEndRig, "write" | "read"> {
  const folder = (id: string) => fake.place(`${parent}/${id}`);
  return {
    async write(id, content) {
      mkdirSync(folder(id), { recursive: true });
      writeFileSync(join(folder(id), "content"), content);
    },
    async read(id) {
      const path = join(folder(id), "content");
      return existsSync(path) ? readFileSync(path, "utf8") : "";
    },
  };
}

/** A connection of a ZFS driver to the pools of a model, below the dataset `parent`. */
export function zfsEnd(side: CopySide, fake: FakeZfs, parent: string, given: ZfsOptions): StreamEndRig {
  const others = localRunner({ env: { PATH: `${fake.bin}:/usr/sbin:/usr/bin:/sbin:/bin` } });
  const runner = inProcess(fake, others);
  const parents = { datasetParentName: `${parent}/v`, detachedSnapshotsDatasetParentName: `${parent}/s` };
  const options = { ...given, folder: fake.folder, zfs: { ...given.zfs, ...parents } };
  return endOf(side, life => openZfs(options, localHost(livingRunner(runner, fake.streams, side, life))), {
    ...filesBelow(fake, `${parent}/v`),
    everything: async () =>
      [...thingsBelow(fake, parent).filter(name => !/^tank\/[kl]\/[vs]$/.test(name)), ...fake.targets()].sort(),
  });
}

/** Two connections of ZFS drivers: on two hosts, or on one with parents of their own. */
export async function zfsPair(from: ZfsOptions, to: ZfsOptions, hosts: 1 | 2): Promise<StreamPairRig> {
  const there = await fakeZfs();
  const here = hosts === 1 ? there : await fakeZfs();
  // Guids differ between systems.
  if (hosts === 2)
    here.with(pools => {
      pools.state.next = 500_000;
    });
  return {
    source: zfsEnd("source", there, "tank/k", from),
    target: zfsEnd("target", here, hosts === 1 ? "tank/l" : "tank/k", to),
    ...streamHands(there, here, "tank/k/v"),
    async end() {
      await there.close();
      if (hosts === 2) await here.close();
    },
  };
}
