import { expect, test } from "bun:test";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Argv } from "../../../lib/io/runner.ts";
import type { ConnectionStatus } from "../../../lib/observe/status.ts";
import { askStatus, statusSocketOf } from "../../../lib/observe/status-socket.ts";
import { build } from "../../../scripts/build.ts";
import { startDaemon } from "../../../scripts/daemon.ts";
import { engineSettings } from "../../../scripts/engine.ts";
import { makeSandbox } from "../../../scripts/sandbox.ts";
import { tool } from "../../../scripts/spawned.ts";
import { canMountFuse, mountSilence } from "../../fakes/silence.ts";
import { startDouble } from "../../fakes/truenas/double.ts";
import { pause } from "../../waiting.ts";
import { failureOf, mebibytes, status, World } from "../world.ts";

// Whether a storage is there is found by csimux as a process here, on storages that really do not answer.

const limitMs = 120_000;

/** Asks until it is so; a minute at most. */
async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  const end = Date.now() + 60_000;
  for (;;) {
    const seen = await look();
    if (seen !== undefined) return seen;
    if (Date.now() > end) throw new Error(`not within a minute: ${what}`);
    await pause(50);
  }
}

const started = async (
  more: (connections: string) => Promise<void>,
  command: () => Promise<Argv> = async () => [await build()],
): Promise<World> => {
  const sandbox = await makeSandbox("off", ["one"]);
  await more(sandbox.connections);
  const flags = ["--health-interval=0.5", "--metrics-address=127.0.0.1:0"];
  return World.on(sandbox, async () => startDaemon({ command: await command(), sandbox, flags, env: engineSettings }));
};

/** Nothing here takes the seconds that csimux gives a slow storage. */
const impatient = async (): Promise<Argv> => [tool("bun"), join(import.meta.dir, "impatient.ts")];

const seen = (world: World) => askStatus(statusSocketOf(world.sandbox.socket), 5_000);
const nasOf = async (world: World): Promise<ConnectionStatus | undefined> =>
  (await seen(world)).connections.find(({ name }) => name === "nas");
const outage = async (world: World) => (await nasOf(world))?.outage;
const isNow = (state: ConnectionStatus["state"], world: World) => async () =>
  (await nasOf(world))?.state === state ? true : undefined;
const answers = async (world: World) => ((await outage(world)) ? undefined : true);

async function metric(world: World): Promise<string | undefined> {
  const { metrics } = (await seen(world)).details;
  const page = await (await fetch(`http://127.0.0.1:${metrics?.port}/metrics`)).text();
  return page.split("\n").find(line => line.startsWith('csimux_connection_unavailable{connection="nas"}'));
}

test(
  "calls of a TrueNAS that is switched off fail at once, without reaching it, until it is back",
  async () => {
    const nas = await startDouble({ version: "25.10" });
    const world = await started(connections =>
      writeFile(
        join(connections, "nas.yaml"),
        JSON.stringify({
          driver: "truenas-api-nfs",
          httpConnection: { protocol: "http", host: "127.0.0.1", port: nas.port, apiKey: "1-secret" },
          zfs: { datasetParentName: "tank/k8s/v", detachedSnapshotsDatasetParentName: "tank/k8s/s" },
          nfs: { shareHost: "127.0.0.1" },
        }),
      ),
    );
    let again: Awaited<ReturnType<typeof startDouble>> | undefined;
    try {
      const volumeId = (await world.create("pvc-1", "nas")).volume?.volumeId ?? "";
      await nas.close();
      const tried = async () => {
        await failureOf(world.controller("deleteVolume", { volumeId }));
        return outage(world);
      };
      const { reason } = await until("it is known to be away", tried);
      expect(reason).not.toContain("secret");
      const calls = {
        delete: () => world.controller("deleteVolume", { volumeId }),
        expand: () => world.controller("controllerExpandVolume", { volumeId, capacityRange: mebibytes(2) }),
        create: () => world.create("pvc-2", "nas"),
      };
      for (const [what, call] of Object.entries(calls)) {
        const begun = performance.now();
        const { code, details } = await failureOf(call());
        expect([what, code]).toEqual([what, status.unavailable]);
        expect(details).toMatch(/"nas" has been unreachable since .*; next attempt at /);
        expect(performance.now() - begun).toBeLessThan(3_000);
      }
      await until("it is the state", isNow("unreachable", world));
      expect(await metric(world)).toEndWith(" 1");
      await world.create("pvc-1", "one");

      again = await startDouble({ version: "25.10", port: nas.port, state: nas.state });
      await until("it is back", () => answers(world));
      await until("nothing is wrong any more", isNow("good", world));
      expect(await metric(world)).toEndWith(" 0");
      await world.controller("deleteVolume", { volumeId });
      const lines = (await world.daemon.log()).split("\n").filter(line => line.includes('connection \\"nas\\"'));
      const told = lines
        .map(line => JSON.parse(line).message as string)
        .filter(line => line.startsWith('connection "nas" can'));
      expect(told).toEqual([
        'connection "nas" cannot be used: calls that need its storage are refused until its check succeeds',
        'connection "nas" can be used again',
      ]);
    } finally {
      await again?.close();
      expect(await world.end()).toEqual([]);
    }
  },
  limitMs,
);

test.skipIf(!canMountFuse())(
  "a mount that hangs is found by calls that never end, and found well again when it answers",
  async () => {
    let end = () => {};
    const world = await started(async connections => {
      const base = join(connections, "..", "hung");
      await mkdir(base);
      const unmount = mountSilence(base);
      end = () => {
        unmount();
        end = () => {};
      };
      const where = { shareBasePath: base, controllerBasePath: base };
      const file = { driver: "local-hostpath", "local-hostpath": where };
      await writeFile(join(connections, "nas.yaml"), JSON.stringify(file));
    }, impatient);
    try {
      const names = ["a", "b", "c"];
      const hanging = names.map(name =>
        failureOf(world.controller("deleteVolume", { volumeId: `v:nas/${name}` }, 2_000)),
      );
      expect((await Promise.all(hanging)).map(({ code }) => code)).toEqual(names.map(() => status.deadlineExceeded));
      // A new process serves calls before it serves its status.
      await until("it is known to be away", () => outage(world).catch(() => undefined));
      // Also of a volume whose deletion hangs already.
      const { code, details } = await failureOf(world.controller("deleteVolume", { volumeId: "v:nas/a" }, 20_000));
      expect([code, details]).toEqual([status.unavailable, expect.stringContaining("next attempt at")]);
      end();
      await until("it is back", () => answers(world));
      await world.controller("deleteVolume", { volumeId: "v:nas/a" });
    } finally {
      const left = world.end();
      end();
      expect(await left).toEqual([]);
    }
  },
  limitMs,
);
