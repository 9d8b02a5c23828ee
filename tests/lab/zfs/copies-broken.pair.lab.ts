import { expect, test } from "bun:test";
import { setTimeout as pause } from "node:timers/promises";
import { persistently } from "../persistently.ts";
import { run } from "../run.ts";
import { onSecond, secondAddress } from "../second.ts";
import {
  asking,
  contentOf,
  filling,
  limitMs,
  make,
  nothingLeft,
  remove,
  shell,
  withCopies,
  world,
} from "./copies-rig.ts";

withCopies();
/** Ends all connections to an address on this side; the other side does not notice. */
const cutLink = `printf '%s\\n' 'add table inet copies' 'add chain inet copies out { type filter hook output priority 0; }' \\
  "add rule inet copies out ip daddr $1 tcp dport 22 reject with tcp reset" | nft -f -`;
const cuts = Number(process.env["LAB_CUTS"] ?? 50);

test(
  "a copy whose link is cut, and whose programs and csimux are killed, at random moments is whole in the end, and there is one of it",
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
      // Every cut is of the link; two of three come after a kill.
      const kind = random(6);
      if (kind === 0) {
        process.kill(world.daemon.pid, "SIGKILL");
        await ask;
        await world.daemon.stop();
        await world.restart();
      } else if (kind === 1) await shell(run, "pkill -KILL -f '^[^ ]*zfs send' || :");
      else if (kind === 2) await shell(onSecond, "pkill -KILL -f '^[^ ]*zfs receive' || :");
      else if (kind === 3) await shell(run, `pkill -KILL -f '[s]sh.*${secondAddress}' || :`);
      await shell(run, cutLink, secondAddress);
      await pause(random(3000));
      await run(["nft", "delete", "table", "inet", "copies"]);
      copy = await ask;
      if (copy !== undefined) {
        expect(await contentOf(onSecond, `tank/far/v/cut-${made}`)).toBe(wanted);
        await remove(copy);
        copy = undefined;
        made += 1;
      }
      // A volume of that name is either absent or whole; csimux lists none that is unfinished.
      const { entries } = await persistently(() => world.controller("listVolumes", {}, 60_000));
      const ids = entries.map(({ volume }) => volume?.volumeId ?? "");
      expect(ids.filter(id => id.startsWith("v:far/cut-"))).toEqual([]);
    }
    const last = await make("far", `cut-${made}`, { volume: source });
    expect(await contentOf(onSecond, `tank/far/v/cut-${made}`)).toBe(wanted);
    process.stderr.write(`copies completed under ${cuts} cuts and the kills before them: ${made + 1}\n`);
    await nothingLeft();
    for (const id of [source, last]) await remove(id);
  },
  limitMs,
);
