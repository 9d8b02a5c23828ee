import { afterAll, beforeAll, expect, test } from "bun:test";
import type { World } from "../../serve/world.ts";
import { diskCases, limitMs } from "../disk-cases.ts";
import { livesAsBlock, livesMounted, mounting, show } from "../disk-volume.ts";
import { startCsimux, unmountVolume } from "../rig.ts";
import { run } from "../run.ts";
import { leftSince, traces } from "../traces.ts";
import type { Chap } from "../zfs/lio.ts";
import { iscsiSessions, iscsiVolume, withTarget } from "./iscsi-target.ts";

let before: ReadonlySet<string>;
let world: World;
beforeAll(async () => {
  before = await traces();
  world = await startCsimux({ connections: {} });
}, limitMs);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  expect(await leftSince(before)).toEqual([]);
}, limitMs);

const during = (work: (grow: () => Promise<void>) => Promise<void>, chap?: Chap): Promise<void> =>
  withTarget(() => world, work, chap);

diskCases({
  world: () => world,
  during,
  volumes: [iscsiVolume(), iscsiVolume({ lun: "1" })],
  sessions: iscsiSessions,
});

const chap: Chap = {
  userid: "node",
  password: "secret-of-node",
  userid_mutual: "target",
  password_mutual: "secret-of-target",
};
const secrets = {
  "node-db.node.session.auth.authmethod": "CHAP",
  "node-db.node.session.auth.username": "node",
  "node-db.node.session.auth.password": "secret-of-node",
  "node-db.node.session.auth.username_in": "target",
  "node-db.node.session.auth.password_in": "secret-of-target",
};

test(
  "a target with mutual CHAP is authenticated, and a wrong password is reported as such",
  async () => {
    await during(async grow => {
      const wrong = { ...secrets, "node-db.node.session.auth.password": "not-the-secret" };
      const refused = show(world, iscsiVolume(), { secrets: wrong, capability: mounting("ext4") });
      await expect(refused).rejects.toThrow("UNAUTHENTICATED");
      expect(await iscsiSessions()).toBe(0);
      await livesMounted(world, { volume: iscsiVolume(), options: { secrets } }, "ext4", grow);
    }, chap);
  },
  limitMs,
);

test(
  "volumes of one target over two interfaces are detached one by one, whichever goes first",
  async () => {
    const iface = ["iscsiadm", "-m", "iface", "-I", "csimux-two", "-o"] as const;
    await run([...iface, "new"]);
    try {
      for (const turned of [false, true])
        await during(async () => {
          const volumes = [iscsiVolume(), iscsiVolume({ lun: "1", interface: "csimux-two" })];
          for (const each of volumes) await show(world, each, { capability: mounting("ext4") });
          expect(await iscsiSessions()).toBe(2);
          for (const each of turned ? volumes.toReversed() : volumes) await unmountVolume(world, each);
          expect(await leftSince(before)).toEqual(expect.not.arrayContaining([expect.stringMatching(/^iSCSI/)]));
        });
    } finally {
      await run([...iface, "delete"]);
    }
  },
  limitMs,
);

test(
  "without multipath, a dead portal costs time, and the volume is attached",
  async () => {
    await during(async grow => {
      const shown = iscsiVolume({ portal: "127.0.0.1:3999", portals: "127.0.0.1:3999,127.0.0.2:3260" });
      await livesMounted(world, { volume: shown }, "ext4", grow);
    });
  },
  limitMs,
);

test(
  "with multipath, two portals are two paths of one map; a third, dead portal does no harm",
  async () => {
    await run(["systemctl", "start", "multipathd"]);
    try {
      await during(async grow => {
        const shown = iscsiVolume({ portals: "127.0.0.2:3260,127.0.0.1:3999" });
        const path = await show(world, shown, { capability: mounting("ext4") });
        expect(await run(["findmnt", "-n", "-o", "SOURCE", path])).toContain("/dev/mapper/");
        expect(await iscsiSessions()).toBe(2);
        await unmountVolume(world, shown);
        await livesMounted(world, { volume: shown }, "ext4", grow);
      });
      await during(grow => livesAsBlock(world, { volume: iscsiVolume({ portals: "127.0.0.2:3260" }) }, grow));
    } finally {
      await run(["systemctl", "stop", "multipathd", "multipathd.socket"]);
    }
  },
  limitMs,
);
