import { expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { sentBytes } from "../../../../lib/copies/stream-pipe.ts";
import { wordsOf } from "../../../../lib/copies/zfs-send.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, gib, volumeOf } from "../../../contract/rig.ts";
import type { ZfsOptions } from "../zfs-rig.ts";
import { copyOf, copyRig, copySource, copyTarget, held, joined, streamsOf, targetOf } from "./copy-rig.ts";

// With programs that run as processes: shells, signals and pipes are the real ones.

const call = callWith();
const opened = perTest(copyRig);
const options: ZfsOptions = { driver: "zfs-generic-nfs", programs: true };
const source = { kind: "volume", id: "v" } as const;
const spec = copyOf("c", source);

async function begun() {
  const { source: there, target: here } = await opened({ from: options, to: options });
  const [a, b] = [there.open(), here.open()];
  await there.write(await a.create(volumeOf("v"), call), "content");
  const snapshot = await copySource(a).protect(source, targetOf("c"), 0, call);
  await copyTarget(b).begin(spec, snapshot, "record", call);
  return { there, here, a, b, snapshot, ends: streamsOf(a, b) };
}

test("a receive whose sender is gone is ended, keeps what it has, and is continued", async () => {
  const { here, a, b, snapshot, ends } = await begun();
  const { argv } = ends.source.open(snapshot, { kind: "whole" }, false);
  const { stdout } = await ends.source
    .open(snapshot, { kind: "whole" }, false)
    .host.runner.run({ argv, maxBytes: 1 << 20 }, call.signal);
  const verbose = ends.source.open(snapshot, { kind: "whole" }, false, true);
  const told: bigint[] = [];
  const said = await verbose.host.runner.run({ argv: verbose.argv, maxBytes: 1 << 20 }, call.signal);
  sentBytes(bytes => void told.push(bytes))(Buffer.from(said.stderr));
  expect([said.stdout, told, wordsOf(said.stderr)]).toEqual([stdout, [2048n], ""]);
  const [program, ...words] = ends.target.open("c", snapshot, false).argv;
  const env = { PATH: `${here.fake.bin}:/usr/bin:/bin` };
  const deadline = performance.now() + 30_000;
  const state = async () => ends.target.state("c", call);
  const interrupted = async (): Promise<void> => {
    const child = spawn(program, words, { env, stdio: ["pipe", "ignore", "ignore"] });
    const ended = new Promise<number | null>(resolve => child.once("close", code => resolve(code)));
    child.stdin.on("error", () => {});
    child.stdin.write(stdout.slice(0, 3000));
    while ((await state()).kind !== "busy" && performance.now() < deadline);
    await ends.target.stop("c", call);
    expect(await ended).not.toBe(0);
  };
  // One that is ended before it has read anything has nothing to keep.
  do await interrupted();
  while ((await state()).kind === "nothing" && performance.now() < deadline);
  const left = await state();
  expect(left).toMatchObject({ kind: "partial", proof: snapshot.proof });
  const token = left.kind === "partial" ? left.token : "";
  await joined(ends.source.open(snapshot, { kind: "token", token }, false), ends.target.open("c", snapshot, false));
  expect(await here.read(await copyTarget(b).finish("c", spec, snapshot, held, call))).toBe("content");
  await copySource(a).release(targetOf("c"), undefined, call);
});

test("a later pass overwrites nothing but its own landing", async () => {
  const { there, here, a, snapshot, ends } = await begun();
  await joined(ends.source.open(snapshot, { kind: "whole" }, false), ends.target.open("c", snapshot, false));
  const [volume] = [await a.reading?.get("v", call)];
  if (volume) await there.write(volume, "changed");
  const second = await copySource(a).protect(source, targetOf("c"), 1, call);
  const send = () => ends.source.open(second, { kind: "since", snapshot }, false);
  here.fake.zfs("set", "csimux:landing=d", "tank/k/v/csimux-land-c");
  await expect(joined(send(), ends.target.open("c", second, true))).rejects.toThrow("is not the target of c");
  here.fake.zfs("set", "csimux:landing=c", "tank/k/v/csimux-land-c");
  await joined(send(), ends.target.open("c", second, true));
  expect(await ends.target.state("c", call)).toEqual({ kind: "whole", proof: second.proof });
});

test("a full pool keeps what it has, and the token to continue", async () => {
  const { there, here, a, b, ends } = await begun();
  const big = copyOf("big", source);
  const volume = await a.reading?.get("v", call);
  if (volume) await there.write(volume, "x".repeat(10_000));
  const later = await copySource(a).protect(source, targetOf("big"), 0, call);
  expect(later.toSend).toBeGreaterThan(9000n);
  await copyTarget(b).begin(big, later, "record", call);
  const set = (bytes: number) =>
    here.fake.with(pools => {
      const tank = pools.state.pools["tank"];
      if (tank) tank.bytes = bytes;
    });
  set(5000);
  const receive = () => ends.target.open("big", later, false);
  await expect(joined(ends.source.open(later, { kind: "whole" }, false), receive())).rejects.toThrow("out of space");
  expect(await copyTarget(b).refusal("zfs-send", big, later, call)).toMatchObject({ code: "resource-exhausted" });
  const state = await ends.target.state("big", call);
  expect(state).toMatchObject({ kind: "partial", proof: later.proof });
  set(Number(gib));
  await joined(
    ends.source.open(later, { kind: "token", token: state.kind === "partial" ? state.token : "" }, false),
    receive(),
  );
  expect(await ends.target.state("big", call)).toEqual({ kind: "whole", proof: later.proof });
});
