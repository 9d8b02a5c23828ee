import { expect, test } from "bun:test";
import { setTimeout as pause } from "node:timers/promises";
import { run, waitFor } from "../run.ts";
import { onSecond, secondAddress } from "../second.ts";
import { asking, contentOf, filling, limitMs, make, nothingLeft, remove, shell, world } from "./copies-rig.ts";

const cuts = Number(process.env["LAB_CUTS"] ?? 50);

test(
  "a copy whose programs and csimux are killed at random moments is whole in the end, and there is one of it",
  async () => {
    const source = await make("near", "cut");
    await shell(run, filling, "/tank/near/v/cut", "384");
    const wanted = await contentOf(run, "tank/near/v/cut");
    const seed = Number(process.env["LAB_SEED"] ?? Date.now() % 100_000);
    process.stderr.write(`LAB_SEED=${seed}\n`);
    let state = seed;
    const random = (below: number) => {
      state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
      return state % below;
    };
    let copy: string | undefined;
    let made = 0;
    for (let cut = 0; cut < cuts; cut++) {
      const ask = asking("far", `cut-${made}`, { volume: source }).then(
        ({ volume }) => volume?.volumeId,
        () => undefined,
      );
      await pause(200 + random(4000));
      const kind = random(4);
      if (kind === 0) {
        process.kill(world.daemon.pid, "SIGKILL");
        await ask;
        await world.daemon.stop();
        await world.restart();
      } else if (kind === 1) await shell(run, "pkill -KILL -x -f 'zfs send.*' || pkill -KILL -f '[z]fs send' || :");
      else if (kind === 2) await shell(onSecond, "pkill -KILL -f '[z]fs receive' || :");
      else await shell(run, `pkill -KILL -f '[s]sh.*${secondAddress}' || :`);
      copy = await ask;
      if (copy !== undefined) {
        expect(await contentOf(onSecond, `tank/far/v/cut-${made}`)).toBe(wanted);
        await remove(copy);
        copy = undefined;
        made += 1;
      }
      // A volume of that name is either absent or whole.
      const listed = await onSecond(["zfs", "list", "-H", "-o", "name", "-r", "tank/far"]);
      expect(listed.split("\n").filter(name => name.startsWith("tank/far/v/cut-"))).toEqual([]);
    }
    const last = await make("far", `cut-${made}`, { volume: source });
    expect(await contentOf(onSecond, `tank/far/v/cut-${made}`)).toBe(wanted);
    process.stderr.write(`${made + 1} copies were completed under ${cuts} kills\n`);
    await nothingLeft();
    for (const id of [source, last]) await remove(id);
  },
  limitMs,
);

const bootId = (): Promise<string | undefined> =>
  onSecond(["cat", "/proc/sys/kernel/random/boot_id"], 20_000).catch(() => undefined);

test(
  "a copy whose target loses power in the middle is whole in the end",
  async () => {
    const source = await make("near", "power");
    await shell(run, filling, "/tank/near/v/power", "256");
    await asking("far", "power-copy", { volume: source }).catch(() => {});
    const last = await bootId();
    await onSecond(["sh", "-c", "echo b >/proc/sysrq-trigger"], 10_000).catch(() => {});
    await waitFor(
      "the start of the second guest",
      async () => {
        const now = await bootId();
        return now !== undefined && now !== last ? true : undefined;
      },
      limitMs,
    );
    const copy = await make("far", "power-copy", { volume: source });
    expect(await contentOf(onSecond, "tank/far/v/power-copy")).toBe(await contentOf(run, "tank/near/v/power"));
    await nothingLeft();
    for (const id of [source, copy]) await remove(id);
  },
  limitMs,
);
