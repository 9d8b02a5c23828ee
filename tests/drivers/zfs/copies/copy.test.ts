import { describe, expect, test } from "bun:test";
import type { Source } from "../../../../lib/drivers/driver.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, getVolume, gib, snapshotsOf, volumeIds, volumeOf } from "../../../contract/rig.ts";
import { atEachStep } from "../../../contract/steps.ts";
import type { ZfsOptions } from "../zfs-rig.ts";
import {
  codeOf,
  copied,
  copyOf,
  copyProperties,
  copyRig,
  copySource,
  copyTarget,
  held,
  holdsIn,
  joined,
  namesIn,
  streamsOf,
  targetOf,
} from "./copy-rig.ts";

const call = callWith();
const opened = perTest(copyRig);

const pairs: readonly (readonly [string, ZfsOptions, ZfsOptions])[] = [
  ["file systems, NFS to SMB", { driver: "zfs-generic-nfs" }, { driver: "zfs-generic-smb" }],
  ["file systems, SMB to those of the node", { driver: "zfs-generic-smb" }, { driver: "zfs-local-dataset" }],
  ["zvols, iSCSI to NVMe", { driver: "zfs-generic-iscsi" }, { driver: "zfs-generic-nvmeof" }],
  [
    "zvols of the node to thick ones",
    { driver: "zfs-local-zvol" },
    { driver: "zfs-generic-iscsi", zfs: { zvolEnableReservation: true } },
  ],
];

const kinds = ["volume", "snapshot", "detached snapshot"] as const;

type Made = Awaited<ReturnType<typeof madeOn>>;

async function madeOn(from: ZfsOptions, to: ZfsOptions, kind: (typeof kinds)[number]) {
  const rig = await opened({ from, to });
  const [a, b] = [rig.source.open(), rig.target.open()];
  const volume = await a.create(volumeOf("v"), call);
  await rig.source.write(volume, "content");
  if (kind === "volume")
    return { there: rig.source, here: rig.target, a, b, source: { kind, id: volume.id } satisfies Source };
  const parameters: Record<string, string> = kind === "snapshot" ? {} : { detachedSnapshots: "true" };
  const { id } = await snapshotsOf(a).create("s", volume.id, parameters, call);
  await rig.source.write(volume, "later");
  return { there: rig.source, here: rig.target, a, b, source: { kind: "snapshot", id } satisfies Source };
}

describe.each(pairs)("a copy of %s", (_, from, to) => {
  const made = (kind: (typeof kinds)[number] = "volume"): Promise<Made> => madeOn(from, to, kind);

  test.each(kinds)(
    "of a %s becomes a volume with its content, its own properties and share, and leaves nothing else",
    async kind => {
      const { there, here, a, b, source } = await made(kind);
      const before = namesIn(there);
      const volume = await copied(a, b, copyOf("c", source, 2n * gib), source);
      expect([volume.id, volume.bytes]).toEqual(["c", 2n * gib]);
      expect(await here.read(volume)).toBe("content");
      expect(await volumeIds(b)).toEqual(["c"]);
      const plain = await b.create(volumeOf("plain"), call);
      expect(Object.keys(volume.context)).toEqual(Object.keys(plain.context));
      const [own, others] = ["c", "plain"].map(id => Object.keys(here.fake.find(`tank/k/v/${id}`)?.own ?? {}));
      expect(new Set([...(others ?? []), "csimux:copy-of", "csimux:proof"])).toEqual(
        new Set([
          ...(own ?? []).filter(key => key !== "canmount"),
          ...(others ?? []).filter(key => key === "canmount"),
        ]),
      );
      expect(here.fake.find("tank/k/v/c")?.mounted ?? false).toBe(here.fake.find("tank/k/v/plain")?.mounted ?? false);
      expect(here.fake.find("tank/k/v/c")?.shared ?? false).toBe(here.fake.find("tank/k/v/plain")?.shared ?? false);
      expect(namesIn(here)).toEqual(["c", "plain"]);
      expect([namesIn(there), holdsIn(there), copyProperties(there), copyProperties(here)]).toEqual([
        before,
        [],
        [],
        [],
      ]);
      expect(await codeOf(copied(a, b, copyOf("c", source, 2n * gib), source))).toBe("none");
      for (const id of ["c", "plain"]) await b.delete(id, call);
      expect(await here.remains()).toEqual([]);
    },
  );

  test("whose stream breaks is continued by its token, and another stream's part is discarded", async () => {
    const { here, a, b, source } = await made();
    const spec = copyOf("c", source);
    const snapshot = await copySource(a).protect(source, targetOf("c"), 0, call);
    await copyTarget(b).begin(spec, snapshot, "record", call);
    const ends = streamsOf(a, b);
    expect(await ends.target.state("c", call)).toEqual({ kind: "nothing" });
    const [send, receive] = [
      ends.source.open(snapshot, { kind: "whole" }, false),
      ends.target.open("c", snapshot, false),
    ];
    await expect(joined(send, receive, 3000)).rejects.toThrow("incomplete stream");
    const state = await ends.target.state("c", call);
    expect(state).toMatchObject({ kind: "partial", proof: snapshot.proof });
    expect(await codeOf(copyTarget(b).finish("c", spec, snapshot, held, call))).toBe("failed-precondition");
    expect(await volumeIds(b)).toEqual([]);
    const token = state.kind === "partial" ? state.token : "";
    await joined(ends.source.open(snapshot, { kind: "token", token }, false), ends.target.open("c", snapshot, false));
    expect(await ends.target.state("c", call)).toEqual({ kind: "whole", proof: snapshot.proof });
    expect(await here.read(await copyTarget(b).finish("c", spec, snapshot, held, call))).toBe("content");
    const other = await copySource(a).protect(source, targetOf("d"), 0, call);
    await copyTarget(b).begin(copyOf("d", source), other, "record", call);
    await expect(
      joined(ends.source.open(other, { kind: "whole" }, false), ends.target.open("d", other, false), 3000),
    ).rejects.toThrow();
    // Of two controllers, the later one finds nothing to abort any more.
    await Promise.all([ends.target.discard("d", call), ends.target.discard("d", call)]);
    expect(await ends.target.state("d", call)).toEqual({ kind: "nothing" });
    expect(namesIn(here)).toContain("csimux-copy-d");
  });

  /** A landing with the first of two snapshots, and one that another made of it. */
  async function twoPasses() {
    const all = await made();
    const { there, here, a, b, source } = all;
    const [spec, target] = [copyOf("c", source), targetOf("c")];
    const first = await copySource(a).protect(source, target, 0, call);
    await copyTarget(b).begin(spec, first, "record", call);
    const ends = streamsOf(a, b);
    await joined(ends.source.open(first, { kind: "whole" }, false), ends.target.open("c", first, false));
    here.fake.zfs("snapshot", "tank/k/v/csimux-land-c@auto-1");
    await there.write(await getVolume(a, "v"), "changed");
    const second = await copySource(a).protect(source, target, 1, call);
    return { ...all, spec, target, first, second, ends };
  }

  test("in passes sends only what was changed, and removes what others took of its landing meanwhile", async () => {
    const { there, first, second, target, a, source } = await twoPasses();
    expect(second.proof).not.toBe(first.proof);
    await copySource(a)
      .release(target, undefined, call)
      .catch(() => {});
    const again = await copySource(a).protect(source, target, 2, call);
    expect(again.name).toEndWith("-2");
    await copySource(a).release(target, again, call);
    expect(holdsIn(there)).toHaveLength(1);
  });

  test("in passes ends with the content of the last one", async () => {
    const { there, here, spec, first, second, target, ends, a, b } = await twoPasses();
    const start = { kind: "since" as const, snapshot: first };
    await joined(ends.source.open(second, start, false), ends.target.open("c", second, true));
    await copySource(a).release(target, second, call);
    expect(await ends.target.state("c", call)).toEqual({ kind: "whole", proof: second.proof });
    expect(await codeOf(copyTarget(b).finish("c", spec, first, held, call))).toBe("failed-precondition");
    expect(await here.read(await copyTarget(b).finish("c", spec, second, held, call))).toBe("changed");
    await copySource(a).release(target, undefined, call);
    await copyTarget(b).forget("c", call);
    expect([namesIn(here), namesIn(there), holdsIn(there)]).toEqual([["c"], ["v"], []]);
  });
});

test("a pass after an interrupted attempt to make the landing the volume is continued, proved and landed", async () => {
  const { there, here, a, b, source } = await madeOn(
    { driver: "zfs-generic-nfs" },
    { driver: "zfs-generic-nfs" },
    "volume",
  );
  const [spec, target, landing] = [copyOf("c", source), targetOf("c"), "tank/k/v/csimux-land-c"];
  const first = await copySource(a).protect(source, target, 0, call);
  await copyTarget(b).begin(spec, first, "record", call);
  const ends = streamsOf(a, b);
  await joined(ends.source.open(first, { kind: "whole" }, false), ends.target.open("c", first, false));
  here.fake.zfs("set", `csimux:proof=${first.proof}`, landing);
  await there.write(await getVolume(a, "v"), "changed");
  const second = await copySource(a).protect(source, target, 1, call);
  const [send, receive] = [
    ends.source.open(second, { kind: "since", snapshot: first }, false),
    ends.target.open("c", second, true),
  ];
  await expect(joined(send, receive, 3000)).rejects.toThrow("incomplete stream");
  expect(await ends.target.state("c", call)).toMatchObject({ kind: "partial", proof: second.proof });
  expect(await codeOf(copyTarget(b).finish("c", spec, first, held, call))).toBe("failed-precondition");
  await ends.target.discard("c", call);
  expect(await ends.target.state("c", call)).toEqual({ kind: "whole", proof: first.proof });
  await joined(send, receive);
  expect(await ends.target.state("c", call)).toEqual({ kind: "whole", proof: second.proof });
  expect(await here.read(await copyTarget(b).finish("c", spec, second, held, call))).toBe("changed");
});

/** The time limit of a test that makes a copy for each of its steps, in milliseconds. */
const longMs = 600_000;

describe.each(pairs.filter((_, at) => at % 3 === 0))("a copy of %s", (_, from, to) => {
  const made = (kind: (typeof kinds)[number] = "volume"): Promise<Made> => madeOn(from, to, kind);

  test(
    "that is interrupted at any step of its target is continued, and until its end nothing of it is listed or reachable",
    async () => {
      const { there, here, a, source } = await made();
      let count = 0;
      await atEachStep(
        (step, when) => {
          const { driver, dead } = here.dying(step, when);
          count++;
          return { work: () => copied(a, driver, copyOf(`c${count}`, source), source), dead };
        },
        async () => {
          const b = here.open();
          const name = `c${count}`;
          const listed = await volumeIds(b);
          const finished = here.fake.find(`tank/k/v/${name}`)?.own["democratic-csi:provision_success"] !== undefined;
          expect(listed).toEqual(finished ? [name] : []);
          if (!here.fake.find(`tank/k/v/${name}`))
            for (const each of namesIn(here))
              expect([each, here.fake.find(`tank/k/v/${each}`)?.mounted ?? false]).toEqual([each, false]);
          const volume = await copied(a, b, copyOf(name, source), source);
          expect(await here.read(volume)).toBe("content");
          expect([namesIn(here), copyProperties(here)]).toEqual([[name], []]);
          await b.delete(volume.id, call);
          expect([namesIn(here), here.fake.targets(), holdsIn(there), namesIn(there)]).toEqual([[], [], [], ["v"]]);
        },
      );
    },
    longMs,
  );

  test(
    "that is interrupted at any step of its target can be removed, and then nothing of it is left",
    async () => {
      const { there, here, a, source } = await made();
      await atEachStep(
        (step, when) => {
          const { driver, dead } = here.dying(step, when);
          return { work: () => copied(a, driver, copyOf("c", source), source), dead };
        },
        async () => {
          const b = here.open();
          await copyTarget(b)
            .drop("c", call)
            .catch(() => b.delete("c", call));
          await copyTarget(b).forget("c", call);
          await copySource(a).release(targetOf("c"), undefined, call);
          expect([namesIn(here), here.fake.targets(), holdsIn(there), namesIn(there)]).toEqual([[], [], [], ["v"]]);
        },
      );
    },
    longMs,
  );

  test.each(kinds)(
    "of a %s that is interrupted at any step of its source is continued, and leaves nothing there",
    async kind => {
      const { there, here, a, b, source } = await made(kind);
      const before = namesIn(there);
      await atEachStep(
        (step, when) => {
          const { driver, dead } = there.dying(step, when);
          return { work: () => copied(driver, b, copyOf("c", source), source), dead };
        },
        async () => {
          const volume = await copied(a, b, copyOf("c", source), source);
          expect(await here.read(volume)).toBe("content");
          expect([namesIn(there), holdsIn(there), copyProperties(there)]).toEqual([before, [], []]);
          await b.delete("c", call);
        },
      );
    },
    longMs,
  );
});
