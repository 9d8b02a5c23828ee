import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { run } from "../run.ts";
import { onSecond, secondAddress } from "../second.ts";
import { filling, limitMs, type Machine, make, nothingLeft, remove, shell, withCopies, world } from "./copies-rig.ts";

// Compares copies with equivalent bare commands, in turns, because other programs on the host change the speed of the emulated processor.

withCopies();
const mib = Number(process.env["LAB_MIB"] ?? 1024);
const gigabytes = (mib * 2 ** 20) / 1e9;

/** What a copy took. */
interface Cost {
  /** From the first request to the last byte, and from there to the answer, in seconds. */
  readonly data: number;
  readonly end: number;
  /** CPU time of csimux without its children, in seconds, and by how much its memory has grown, in MiB. */
  readonly cpu: number;
  readonly grown: number;
}

/** CPU seconds and resident MiB of csimux itself (proc(5), /proc/pid/stat; a tick is 10 ms, a page 4 KiB). */
async function used(): Promise<{ readonly cpu: number; readonly memory: number }> {
  const text = await readFile(`/proc/${world.daemon.pid}/stat`, "utf8");
  const fields = text
    .slice(text.lastIndexOf(")") + 2)
    .split(" ")
    .map(Number);
  return { cpu: ((fields[11] ?? 0) + (fields[12] ?? 0)) / 100, memory: (fields[21] ?? 0) / 256 };
}

/** When the last byte of a copy had arrived, in milliseconds since 1970, as csimux logged it. */
async function lastByte(id: string): Promise<number> {
  const lines = (await world.daemon.log()).split("\n");
  const line = lines.findLast(each => each.includes("all data of the copy has arrived") && each.includes(`"${id}"`));
  return Date.parse((JSON.parse(line ?? "{}") as { readonly time?: string }).time ?? "");
}

async function copied(connection: string, name: string, volume: string): Promise<Cost> {
  const [began, before] = [Date.now(), await used()];
  const id = await make(connection, name, { volume }, mib + 256);
  const [ended, after] = [Date.now(), await used()];
  const arrived = await lastByte(id);
  await remove(id);
  const [data, end] = [arrived - began, ended - arrived].map(ms => ms / 1000);
  return {
    data: data ?? Number.NaN,
    end: end ?? Number.NaN,
    cpu: after.cpu - before.cpu,
    grown: after.memory - before.memory,
  };
}

/** Runs both twice and prints all; `bare` is a shell command that gets the snapshot as $1 and the dataset to receive as $2. */
async function compared(what: string, connection: string, where: Machine, bare: string): Promise<void> {
  const source = await make("near", connection, undefined, mib + 256);
  const dataset = `tank/near/v/${connection}`;
  await shell(run, filling, `/${dataset}`, String(mib));
  const commands = async (name: string): Promise<number> => {
    const began = performance.now();
    await shell(run, `zfs snapshot "$1" && ${bare}`, `${dataset}@${name}`, `tank/${connection}/v/bare`);
    const seconds = (performance.now() - began) / 1000;
    await shell(run, 'zfs destroy "$1"', `${dataset}@${name}`);
    await where(["zfs", "destroy", "-r", `tank/${connection}/v/bare`]);
    return seconds;
  };
  const own = [await copied(connection, "own-one", source)];
  const others = [await commands("one"), await commands("two")];
  own.push(await copied(connection, "own-two", source));
  const speeds = own.map(({ data }, at) => (others[at] ?? Number.NaN) / data);
  own.forEach(({ data, end, cpu, grown }, at) => {
    process.stderr.write(
      `${mib} MiB ${what}: bare commands ${others[at]?.toFixed(1)} s; csimux ${data.toFixed(1)} s to the last byte ` +
        `(${speeds[at]?.toFixed(2)} of their speed), ${end.toFixed(1)} s more to the answer; ` +
        `its CPU ${(cpu / gigabytes).toFixed(2)} s for each GB, its memory ${grown.toFixed(1)} MiB more\n`,
    );
  });
  await nothingLeft();
  await remove(source);
  // Wide, because the lab is not suitable for measurements: this detects an order of magnitude.
  expect(Math.max(...speeds)).toBeGreaterThan(0.5);
  expect(Math.min(...own.map(({ end }) => end))).toBeLessThan(30);
}

const ssh = "ssh -o StrictHostKeyChecking=no -o LogLevel=ERROR";

test(
  "a stream between two machines takes about as long as the bare commands",
  () =>
    compared(
      "between two machines",
      "far",
      onSecond,
      `${ssh} root@127.0.0.1 zfs send -Lc "$1" | ${ssh} root@${secondAddress} zfs receive -s -u "$2"`,
    ),
  limitMs,
);

test(
  "a stream within a machine takes about as long as the bare commands",
  () => compared("within a machine", "also", run, 'zfs send -Lc "$1" | zfs receive -s -u "$2"'),
  limitMs,
);
