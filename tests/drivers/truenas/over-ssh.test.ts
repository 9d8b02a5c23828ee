import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import type { Driver, Volume } from "../../../lib/drivers/driver.ts";
import { modules } from "../../../lib/drivers/index.ts";
import { localRunner } from "../../../lib/io/local.ts";
import { localHost } from "../../../lib/io/local-host.ts";
import { CommandError } from "../../../lib/io/runner.ts";
import type { StorageHost } from "../../../lib/io/script.ts";
import { driverContract } from "../../contract/driver.ts";
import { callWith, type DriverRig, gib, volumeOf } from "../../contract/rig.ts";
import { localPorts } from "../../fakes/ports.ts";
import { type Double, startDouble } from "../../fakes/truenas/double.ts";
import { datasetsOf } from "../../fakes/truenas/on-zfs.ts";
import { numberOf, type Version, versions } from "../../fakes/truenas/versions.ts";
import { type FakeZfs, fakeZfs, inProcess } from "../../fakes/zfs/pools.ts";
import { refusal, remainsOf, sections, type Way } from "./rig.ts";

/** A driver with ZFS over ssh: the program zfs is a model of it, the shares are those of a double. */
function openOn(double: Double, host: StorageHost, way: Way, key: string): Driver {
  const name = `truenas-${way}`;
  const module = modules.find(each => each.names.includes(name));
  if (!module?.open) throw new Error(`${name} cannot be opened`);
  const config = {
    httpConnection: { protocol: "http", host: "127.0.0.1", port: double.port, apiKey: key },
    sshConnection: { host: "nas", username: "root", password: "x" },
    zfs: {
      ...{ datasetParentName: "tank/k/v", detachedSnapshotsDatasetParentName: "tank/k/s" },
      ...(way === "nfs" || way === "smb" ? { datasetEnableQuotas: true } : {}),
      deleteWithDependents: "tombstone",
    },
    ...sections[way],
  };
  const identity = { connection: "c1", driver: name, instanceId: undefined, maxIdBytes: 100 };
  return module.open(identity, v.parse(module.schema, config) as never, localPorts(host.runner, host));
}

/** A host whose scripts count as requests of this credential: the process ends with all that it reaches. */
const mortal = (host: StorageHost, double: Double, key: string): StorageHost => ({
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

async function rig(
  way: Way,
  version: Version,
): Promise<DriverRig & { readonly double: Double; readonly fake: FakeZfs }> {
  const fake = await fakeZfs();
  const host = localHost(inProcess(fake, localRunner({ env: { PATH: `${fake.bin}:/usr/bin:/bin` } })));
  const double = await startDouble({ version, elsewhere: datasetsOf(fake) });
  const opened: Driver[] = [];
  const open = (on: StorageHost, key: string): Driver => {
    const driver = openOn(double, on, way, key);
    opened.push(driver);
    return driver;
  };
  let mortals = 0;
  const file = (volume: Volume) => join(fake.place(`tank/k/v/${volume.id}`), "content");
  return {
    double,
    fake,
    open: () => open(host, "1-secret"),
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
    async close() {
      for (const driver of opened) await driver.close?.();
      await double.close();
      await fake.close();
    },
  };
}

const lacks = {
  "snapshots hold their volume": "a volume that is still needed is set aside",
} as const;

/**
 * Those that stand for all: what differs between versions is how a volume is shared and how the server is told that it has grown.
 * TRUENAS_SSH=all in the environment runs each driver in each version that has it.
 */
const usual: readonly string[] = ["nfs 26.0", "smb 25.04", "iscsi 24.10", "nvmeof 25.10"];
const all = process.env["TRUENAS_SSH"] === "all";

for (const way of ["nfs", "smb", "iscsi", "nvmeof"] as const) {
  for (const version of versions.filter(each => way !== "nvmeof" || numberOf(each) >= 2510)) {
    const title = `truenas-${way} with ZFS over ssh on TrueNAS ${version}`;
    if (all || usual.includes(`${way} ${version}`)) driverContract(title, () => rig(way, version), lacks);
  }
}

test("a block device that grows is grown by TrueNAS, which tells it to those who use it; file systems grow over ssh", async () => {
  for (const way of ["iscsi", "nfs"] as const) {
    const { double, open, close } = await rig(way, "25.10");
    const driver = open();
    const { id } = await driver.create(volumeOf("pvc-1"), callWith());
    double.requests.length = 0;
    const grown = await driver.expand?.expand(id, { required: 2n * gib, limit: undefined }, callWith());
    expect(grown).toEqual({ bytes: 2n * gib, onNode: way === "iscsi" });
    const change = { method: "pool.dataset.update", params: [`tank/k/v/${id}`, { volsize: Number(2n * gib) }] };
    expect(double.requests).toMatchObject(way === "iscsi" ? [change] : []);
    await close();
  }
});

test("a volume whose host lost its power between making and marking is completed, and a used dataset of its name is not", async () => {
  for (const way of ["iscsi", "nfs"] as const) {
    const { fake, open, close } = await rig(way, "25.10");
    const driver = open();
    await driver.create(volumeOf("pvc-1"), callWith());
    for (const name of ["tank/k/v/pvc-2", "tank/k/v/pvc-3"]) {
      fake.zfs("create", ...(way === "iscsi" ? ["-s", "-V", String(gib)] : []), name);
      mkdirSync(fake.place(name), { recursive: true });
    }
    fake.zfs("snapshot", "tank/k/v/pvc-3@theirs");
    expect(await driver.create(volumeOf("pvc-2"), callWith())).toMatchObject({ id: "pvc-2", bytes: gib });
    expect(await refusal(driver.create(volumeOf("pvc-3"), callWith()))).toMatchObject({ code: "already-exists" });
    await close();
  }
});
