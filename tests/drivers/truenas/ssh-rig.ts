import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import type { Driver, Volume } from "../../../lib/drivers/driver.ts";
import { localRunner } from "../../../lib/io/local.ts";
import { localHost } from "../../../lib/io/local-host.ts";
import { CommandError, type CommandRunner } from "../../../lib/io/runner.ts";
import type { StorageHost } from "../../../lib/io/script.ts";
import type { DriverRig } from "../../contract/rig.ts";
import { commandsAfter, counted } from "../../contract/steps.ts";
import { localPorts } from "../../fakes/ports.ts";
import { type Double, startDouble } from "../../fakes/truenas/double.ts";
import { datasetsOf } from "../../fakes/truenas/on-zfs.ts";
import type { Version } from "../../fakes/truenas/versions.ts";
import { type FakeZfs, fakeZfs, inProcess } from "../../fakes/zfs/pools.ts";
import { handmade, unmarked, wholeState } from "../zfs/handmade.ts";
import { fullPool } from "../zfs/zfs-rig.ts";
import { moduleOf, type Protocol, remainsOf, sections } from "./rig.ts";

/** A connection to a double. */
interface OverSsh {
  readonly double: Double;
  readonly host: StorageHost;
  /** The driver. */
  readonly name: string;
  readonly protocol: Protocol;
  /** The key that it logs in with. */
  readonly key: string;
  /** The name of the machine in its file. */
  readonly machine?: string;
}

/** A driver with ZFS over ssh: the program zfs is a model of it, the shares are those of a double. */
export function openOverSsh({ double, host, name, protocol, key, machine = "nas" }: OverSsh): Driver {
  const module = moduleOf(name);
  const config = {
    httpConnection: { protocol: "http", host: "127.0.0.1", port: double.port, apiKey: key },
    sshConnection: { host: machine, username: "root", password: "x" },
    zfs: {
      ...{ datasetParentName: "tank/k/v", detachedSnapshotsDatasetParentName: "tank/k/s" },
      ...(protocol === "nfs" || protocol === "smb" ? { datasetEnableQuotas: true } : {}),
      deleteWithDependents: "tombstone",
    },
    ...sections[protocol],
  };
  const identity = { connection: "c1", driver: name, instanceId: undefined, maxIdBytes: 100 };
  return module.open(identity, v.parse(module.schema, config) as never, localPorts(host.runner, host));
}

/** A host whose scripts count as requests of this credential: the process ends with all that it reaches. */
export const mortal = (host: StorageHost, double: Double, key: string): StorageHost => ({
  ...host,
  async script(script, signal) {
    const fault = double.faults.next(key, "script");
    const lost = () => new CommandError("nas", "zfs", "lost", "the process was killed");
    if (fault === "before") throw lost();
    const outputs = await host.script(script, signal);
    if (fault === "after") throw lost();
    return outputs;
  },
});

export interface SshRig extends DriverRig {
  readonly double: Double;
  readonly fake: FakeZfs;
  /** A driver whose programs run through what `wrapped` answers. */
  through(wrapped: (runner: CommandRunner) => CommandRunner): Driver;
}

/** The contract's rig: the datasets of a model of zfs in this process, the shares of a double of its own. */
export async function sshRig(
  protocol: Protocol,
  version: Version,
  spelling: "freenas" | "truenas" = "truenas",
): Promise<SshRig> {
  const fake = await fakeZfs();
  const programs = inProcess(fake, localRunner({ env: { PATH: `${fake.bin}:/usr/bin:/bin` } }));
  const host = localHost(programs);
  const double = await startDouble({ version, elsewhere: datasetsOf(fake) });
  const opened: Driver[] = [];
  const open = (on: StorageHost, key: string): Driver => {
    const driver = openOverSsh({ double, host: on, name: `${spelling}-${protocol}`, protocol, key });
    opened.push(driver);
    return driver;
  };
  let mortals = 0;
  const file = (volume: Volume) => join(fake.place(`tank/k/v/${volume.id}`), "content");
  return {
    double,
    fake,
    facts: moduleOf(`${spelling}-${protocol}`).facts,
    open: () => open(host, "1-secret"),
    through: wrapped => open(localHost(wrapped(programs)), "1-secret"),
    after(before) {
      const key = `${++mortals + 1}-watched`;
      double.accounts.addKey(key);
      const hasRoom = counted(before);
      double.faults.watch(key, hasRoom);
      const commands = commandsAfter(programs, async (_, about) => ((await hasRoom(about)) ? "run" : "full"), fullPool);
      return open(localHost(commands), key);
    },
    // The API makes targets without a condition.
    abandoned: /^(?:target|nvmetSubsys) "pvc-1-/,
    foreign: handmade(fake, `${spelling}-${protocol}`, undefined),
    dying(step, when) {
      const key = `${++mortals + 1}-mortal`;
      double.accounts.addKey(key);
      double.faults.kill(key, step, when);
      return { driver: open(mortal(host, double, key), key), dead: () => double.faults.killed(key) };
    },
    async write(volume, text) {
      mkdirSync(join(file(volume), ".."), { recursive: true });
      writeFileSync(file(volume), text);
    },
    read: async volume => (existsSync(file(volume)) ? readFileSync(file(volume), "utf8") : undefined),
    properties: {
      good: { compression: "zstd-3", "zfs.sync": "always" },
      bad: [
        { compression: "best" },
        { mountpoint: "/etc" },
        { sharenfs: "rw" },
        { "democratic-csi:managed_resource": "no" },
      ],
    },
    hostileSnapshots: ["a@", "@a", "a@b@c", "../v@x", "-r@x"],
    remains: async () => [
      ...fake
        .with(pools => pools.all().map(({ name }) => name))
        .filter(name => !/^tank(?:\/k(?:\/[vs])?)?$/.test(name)),
      ...remainsOf(double),
    ],
    state: async () => structuredClone([wholeState(fake), double.state.tables]),
    unmark: async ({ id }) => unmarked(fake, `tank/k/v/${id}`),
    async close() {
      for (const driver of opened) await driver.close?.();
      await double.close();
      await fake.close();
    },
  };
}
