import { afterAll, beforeAll, expect, test } from "bun:test";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { guestPorts, hostPort } from "../../../scripts/lab/machine.ts";
import { codeOf, failureOf, mebibytes, status, type World } from "../../serve/world.ts";
import {
  guest,
  guestPoolBelow,
  guestShell,
  guestTraces,
  inGuest,
  leftInGuest,
  making,
  numbered,
  removing,
  sshLines,
  volumesOf,
} from "../beside.ts";
import { passing } from "../persistently.ts";
import { startCsimux } from "../rig.ts";
import { waitFor } from "../run.ts";
import { nfsFile } from "./zfs-drivers.ts";

/** A separate pool in a file of the guest, which can be full or exported. */
const pool = "small";
const limitMs = 900_000;

/** A relay between csimux and the guest's sshd that can become silent, like a network that loses every packet. */
class Cable {
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async laid(): Promise<Cable> {
    const server = createServer({ pauseOnConnect: true });
    const cable = new Cable(server);
    server.on("connection", socket => cable.#joined(socket));
    await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve));
    return cable;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Drops everything, without notice to either side. */
  cut(): void {
    for (const socket of this.#sockets) socket.pause();
    this.#server.removeAllListeners("connection");
    this.#server.on("connection", socket => this.#sockets.add(socket));
  }

  /** Accepts new connections; data in transit is lost. */
  mend(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
    this.#server.removeAllListeners("connection");
    this.#server.on("connection", socket => this.#joined(socket));
  }

  async remove(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise(resolve => this.#server.close(resolve));
  }

  #joined(socket: Socket): void {
    const other = connect(hostPort(guest.number, guestPorts.ssh), "127.0.0.1");
    for (const [one, another] of [
      [socket, other],
      [other, socket],
    ] as const) {
      this.#sockets.add(one);
      one.on("error", () => another.destroy());
      one.on("close", () => {
        this.#sockets.delete(one);
        another.destroy();
      });
      one.pipe(another);
    }
  }
}

let before: ReadonlySet<string>;
let cable: Cable;
let world: World;
/** A second csimux with the same connections. */
let other: World;

beforeAll(async () => {
  before = await guestTraces();
  cable = await Cable.laid();
  await guestShell(`truncate -s 256M /srv/${pool}.img && zpool create -O mountpoint=/${pool} ${pool} /srv/${pool}.img`);
  // A silent server is abandoned after twenty seconds: on a busy machine, the server's side of a login needs ten.
  const impatient = ["  keepaliveInterval: 5000", "  keepaliveCountMax: 4"];
  const connections = {
    nas: nfsFile("tank/faults", await sshLines(impatient, cable.port)),
    near: nfsFile("tank/near", await sshLines()),
    small: nfsFile(`${pool}/k8s`, await sshLines(), ["  datasetEnableReservation: true"]),
  };
  world = await startCsimux({ connections });
  other = await startCsimux({ connections });
}, limitMs);
afterAll(async () => {
  expect(await other.end()).toEqual([]);
  expect(await world.end()).toEqual([]);
  await cable.remove();
  await guestShell(
    `zpool destroy ${pool}; rm /srv/${pool}.img; zfs destroy -r tank/faults; zfs destroy -r tank/near; :`,
  );
  expect(await leftInGuest(before)).toEqual([]);
}, limitMs);

/** Asserts that exactly these volumes exist and are finished. */
async function standExactly(connection: string, dataset: string, wanted: readonly string[]): Promise<void> {
  expect(await guestPoolBelow(`${dataset}/v`)).toEqual(wanted.map(name => `/${name}`).sort());
  expect(await volumesOf(world, connection)).toEqual([...wanted].sort());
}

/**
 * Sends a signal to the server's side of every login with a bare shell: csimux's logins; the test's logins run a
 * command.
 */
const signalled = (name: string): Promise<string> =>
  guestShell(
    'for shell in $(pgrep -x sh); do [ "$(tr "\\0" " " </proc/$shell/cmdline)" = "/bin/sh " ] || continue; kill -"$1" $(awk \'/^PPid/ { print $2 }\' /proc/$shell/status) && echo "$shell"; done; :',
    name,
  );

test(
  "logins that are killed repeatedly while volumes are created and deleted harm none of them",
  async () => {
    const [doomed, wanted] = [numbered("old", 6), numbered("new", 6)];
    await Promise.all(doomed.map(name => making(world, "near", name)));
    let busy = true;
    const work = Promise.all([
      ...wanted.map(name => making(world, "near", name)),
      ...doomed.map(name => removing(world, "near", name)),
    ]).finally(() => {
      busy = false;
    });
    let killed = 0;
    for (let round = 0; busy && round < 8; round++) {
      await pause(500);
      killed += (await signalled("KILL")).split("\n").length - 1;
    }
    await work;
    process.stderr.write(`${killed} logins were killed\n`);
    expect(killed).toBeGreaterThan(3);
    await standExactly("near", "tank/near", wanted);
    await Promise.all(wanted.map(name => removing(world, "near", name)));
    await standExactly("near", "tank/near", []);
  },
  limitMs,
);

test(
  "a server that stops during a call is abandoned in time, and the call can be retried",
  async () => {
    await making(world, "nas", "first");
    await signalled("STOP");
    const began = performance.now();
    const code = await codeOf(world.create("second", "nas", { capacityRange: mebibytes(64) as never }, 60_000));
    const seconds = (performance.now() - began) / 1000;
    await signalled("CONT");
    process.stderr.write(`the call ended with ${code} after ${seconds.toFixed(1)} s\n`);
    expect(seconds).toBeLessThan(45);
    expect(["ok", ...passing]).toContain(code);
    await making(world, "nas", "second");
    await standExactly("nas", "tank/faults", ["first", "second"]);
    for (const name of ["first", "second"]) await removing(world, "nas", name);
  },
  limitMs,
);

test(
  "an unreachable host delays only its own calls",
  async () => {
    await making(world, "nas", "kept");
    await making(world, "near", "ready");
    cable.cut();
    const began = performance.now();
    const hanging = numbered("hung", 8).map(name => codeOf(world.create(name, "nas", {}, 30_000)));
    const asked = performance.now();
    expect((await world.probe()).ready).toBe(true);
    process.stderr.write(`Probe took ${(performance.now() - asked).toFixed(1)} ms\n`);
    await making(world, "near", "alive");
    for (const code of await Promise.all(hanging)) expect(passing).toContain(code);
    expect(performance.now() - began).toBeLessThan(120_000);
    cable.mend();
    expect((await making(world, "nas", "hung-0")).volumeId).toBe("v:nas/hung-0");
    for (const name of ["kept", ...numbered("hung", 8)]) await removing(world, "nas", name);
    for (const name of ["ready", "alive"]) await removing(world, "near", name);
    await standExactly("nas", "tank/faults", []);
  },
  limitMs,
);

test(
  "a full pool refuses new volumes with a reason, and its volumes can be deleted",
  async () => {
    await making(world, "small", "filling", { size: 32 });
    const asked = { capacityRange: mebibytes(1024) as never };
    const failure = await failureOf(world.create("too-large", "small", asked, 120_000));
    expect(failure).toMatchObject({ code: status.resourceExhausted });
    await guestShell(`zfs create ${pool}/junk && { dd if=/dev/urandom of=/${pool}/junk/x bs=1M 2>/dev/null || :; }`);
    const late = await failureOf(world.create("late", "small", { capacityRange: mebibytes(32) as never }, 120_000));
    expect(late).toMatchObject({ code: status.resourceExhausted });
    expect(await guestPoolBelow(`${pool}/k8s/v`)).toEqual(["/filling"]);
    await removing(world, "small", "filling");
    await inGuest(["zfs", "destroy", `${pool}/junk`]);
    expect(await guestPoolBelow(`${pool}/k8s/v`)).toEqual([]);
  },
  limitMs,
);

test(
  "calls for an exported pool fail, and nothing is lost",
  async () => {
    const { volumeId } = await making(world, "small", "stays", { size: 32 });
    await guestShell(`echo kept >/${pool}/k8s/v/stays/data`);
    // The NFS server releases the file system with a delay.
    await waitFor(
      "the export of the pool",
      () =>
        guestShell(`zfs unshare -a; sleep 2.2; exportfs -f; zpool export ${pool}`).then(
          () => true as const,
          () => undefined,
        ),
      limitMs,
    );
    const calls = {
      create: () => world.create("new", "small", {}, 60_000),
      delete: () => world.controller("deleteVolume", { volumeId }, 60_000),
      expand: () => world.controller("controllerExpandVolume", { volumeId, capacityRange: mebibytes(48) }, 60_000),
      snapshot: () => world.controller("createSnapshot", { sourceVolumeId: volumeId, name: "lost" }, 60_000),
      gone: () => world.controller("deleteSnapshot", { snapshotId: "s:small/stays@snap" }, 60_000),
      list: () => world.controller("listVolumes", {}, 60_000),
    };
    for (const [what, call] of Object.entries(calls))
      expect({ what, code: await codeOf(call()) }).toEqual({ what, code: status.unavailable });
    await guestShell(`zpool import -d /srv ${pool}; zfs share -a`);
    expect(await guestShell(`cat /${pool}/k8s/v/stays/data`)).toBe("kept\n");
    expect(await volumesOf(world, "small")).toEqual(["stays"]);
    await removing(world, "small", "stays");
    expect(await guestPoolBelow(`${pool}/k8s/v`)).toEqual([]);
  },
  limitMs,
);

test(
  "two csimux processes that create and delete the same volumes of one pool agree",
  async () => {
    const wanted = numbered("both", 8);
    const both = [world, other];
    const made = await Promise.all(both.map(each => Promise.all(wanted.map(name => making(each, "near", name)))));
    expect(made[0]).toEqual(made[1] as never);
    await standExactly("near", "tank/near", wanted);
    await Promise.all(both.flatMap(each => wanted.map(name => removing(each, "near", name))));
    await standExactly("near", "tank/near", []);
  },
  limitMs,
);
