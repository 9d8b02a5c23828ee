import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { nfsClients, nfsdForShells } from "../fakes/zfs/nfsd.ts";
import { type FakeZfs, fakeZfs } from "../fakes/zfs/pools.ts";
import { type Sshd, signal, startSshd } from "../io/ssh/sshd.ts";
import { failureOf, mebibytes, status, World } from "./world.ts";

// Claims that are created again, in the executable, with a real sshd whose sessions find the model of zfs on their PATH.

let fake: FakeZfs;
let sshd: Sshd;
let world: World;

const file = (): string =>
  JSON.stringify({
    driver: "zfs-generic-nfs",
    instance_id: "cluster-1",
    sshConnection: {
      host: "127.0.0.1",
      port: sshd.port,
      username: "root",
      privateKey: sshd.clientKey,
      hostKey: sshd.hostKey,
    },
    zfs: { datasetParentName: "tank/v", detachedSnapshotsDatasetParentName: "tank/s", datasetEnableQuotas: true },
    nfs: {
      shareHost: "nas.example.org",
      shareStrategy: "setDatasetProperties",
      shareStrategySetDatasetProperties: { properties: { sharenfs: "rw" } },
    },
  });

beforeAll(async () => {
  fake = await fakeZfs();
  sshd = await startSshd({ env: { PATH: `${fake.bin}:/usr/bin:/bin` } });
  world = await World.start("off", ["one"], ({ connections }) => writeFile(join(connections, "nas.yaml"), file()));
}, 120_000);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await sshd.stop();
  await fake.close();
});

/** The request of the provisioner for a claim. */
const make = (name: string, claim: string) =>
  world.create(name, "nas", {
    capacityRange: mebibytes(64),
    parameters: {
      connection: "nas",
      deleteStrategy: "retain",
      adopt: "byClaim",
      "csi.storage.k8s.io/pvc/namespace": "shop",
      "csi.storage.k8s.io/pvc/name": claim,
    },
  });
const remove = (volumeId: string) => world.controller("deleteVolume", { volumeId });

/** csimux loses everything that is not on the storage or its disk. */
async function killed(): Promise<void> {
  signal(world.daemon.pid, "SIGKILL");
  await world.daemon.stop();
  await world.restart();
}

/** The content of the volume's folder on the storage. */
const contentOf = (name: string): string => join(fake.place(`tank/v/${name}`), "data");

test("a claim that is created again after a kill has its handle and data again, and each answer may be lost", async () => {
  const { volume } = await make("pvc-1", "db");
  writeFileSync(contentOf("pvc-1"), "from a pod");
  await killed();
  await remove("v:nas/pvc-1");
  await killed();
  await remove("v:nas/pvc-1");
  const again = (await make("pvc-2", "db")).volume;
  expect(again).toMatchObject({ volumeId: "v:nas/pvc-1", volumeContext: volume?.volumeContext ?? {} });
  await killed();
  expect((await make("pvc-2", "db")).volume?.volumeId).toBe("v:nas/pvc-1");
  expect(readFileSync(contentOf("pvc-1"), "utf8")).toBe("from a pod");
  // Another claim, and a third one of the same name while the second one has it, get volumes of their own.
  expect((await make("pvc-3", "other")).volume?.volumeId).toBe("v:nas/pvc-3");
  expect((await make("pvc-4", "db")).volume?.volumeId).toBe("v:nas/pvc-4");
}, 120_000);

test("a volume that a client of the lost cluster has open is refused until it has ended, and nothing is made", async () => {
  await make("pvc-5", "open");
  writeFileSync(contentOf("pvc-5"), "still written");
  await remove("v:nas/pvc-5");
  await killed();
  const place = fake.place("tank/v/pvc-5");
  nfsdForShells(fake.folder, fake.bin, place);
  nfsClients(fake.folder, [{ id: 7, open: [place] }]);
  const before = (await world.controller("listVolumes", {})).entries.length;
  const { code, details } = await failureOf(make("pvc-6", "open"));
  expect([code, details]).toEqual([status.failedPrecondition, expect.stringContaining(`hold files in ${place} open`)]);
  expect((await world.controller("listVolumes", {})).entries).toHaveLength(before);
  nfsClients(fake.folder, []);
  expect((await make("pvc-6", "open")).volume?.volumeId).toBe("v:nas/pvc-5");
  expect(readFileSync(contentOf("pvc-5"), "utf8")).toBe("still written");
}, 120_000);
