import { expect, test } from "bun:test";
import { CsiError } from "../../../../lib/core/errors.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, gib, volumeOf } from "../../../contract/rig.ts";
import { codeOf, copyOf, copyRig, copySource, copyTarget, joined, namesIn, streamsOf, targetOf } from "./copy-rig.ts";

const call = callWith();
const opened = perTest(copyRig);
const source = { kind: "volume", id: "v" } as const;
const spec = copyOf("c", source);

/** A target that has received the whole source, and is not a volume yet. */
async function received(driver: "zfs-generic-nfs" | "zfs-generic-iscsi") {
  const { source: there, target: here } = await opened({ from: { driver }, to: { driver } });
  const [a, b] = [there.open(), here.open()];
  await a.create(volumeOf("v"), call);
  const snapshot = await copySource(a).protect(source, targetOf("c"), 0, call);
  const other = copyTarget(b);
  await other.begin(spec, snapshot, "one", call);
  const { source: from, target: to } = streamsOf(a, b);
  await joined(from.open(snapshot, { kind: "whole" }, false), to.open("c", snapshot, false));
  return { here, a, from, to, snapshot, other };
}

/** A process that is suspended before step `at` while another one does `takeOver`, and the number of its steps so far. */
function stopping(here: Awaited<ReturnType<typeof received>>["here"], at: number, takeOver: () => Promise<void>) {
  let steps = 0;
  let second: Promise<void> | undefined;
  const suspended = here.after(async now => {
    steps = now;
    if (now === at) second = takeOver();
    await second;
    return "run" as const;
  });
  return { suspended, steps: () => steps };
}

/** A target that a process makes the volume, which is suspended before step `at` until another one has become the holder. */
async function suspendedAt(at: number) {
  const { here, snapshot, other } = await received("zfs-generic-nfs");
  let isVolume = false;
  const takeOver = async () => {
    await other.note("c", "two", call);
    isVolume = namesIn(here).includes("c");
  };
  const { suspended, steps } = stopping(here, at, takeOver);
  const stillHeld = async () => {
    if ((await other.find("c", call))?.record !== "one") throw new CsiError("aborted", "another process is the holder");
  };
  const code = await codeOf(copyTarget(suspended).finish("c", spec, snapshot, stillHeld, call));
  return { code, wasVolume: isVolume, isVolume: namesIn(here).includes("c"), steps: steps() };
}

test("a process that was suspended at any step while it made a target the volume leaves that to the next holder", async () => {
  const codes = new Set<string>();
  for (let at = 1; ; at++) {
    const { code, wasVolume, isVolume, steps } = await suspendedAt(at);
    if (steps < at) break;
    if (wasVolume) continue;
    codes.add(code);
    expect([at, code, isVolume]).toEqual([at, code, false]);
  }
  expect([...codes]).toEqual(["aborted"]);
});

test("a process that was suspended while it finished a copy cuts nothing off that the next holder has received", async () => {
  for (let at = 1; ; at++) {
    const { here, a, from, to, snapshot: first } = await received("zfs-generic-iscsi");
    const sizes: (string | undefined)[] = [];
    const size = () => here.fake.find("tank/k/v/csimux-land-c")?.own["volsize"]?.value;
    const takeOver = async () => {
      await a.expand?.expand("v", { required: 2n * gib, limit: undefined }, call);
      const next = await copySource(a).protect(source, targetOf("c"), 1, call);
      const start = { kind: "since" as const, snapshot: first };
      await joined(from.open(next, start, false), to.open("c", next, true)).catch(() => {});
      sizes.push(size());
    };
    const { suspended, steps } = stopping(here, at, takeOver);
    const lost = async () => {
      throw new CsiError("aborted", "another process is the holder");
    };
    await codeOf(copyTarget(suspended).finish("c", spec, first, lost, call));
    if (steps() < at) break;
    expect([at, size()]).toEqual([at, sizes[0]]);
  }
});
