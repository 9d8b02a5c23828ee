import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, getVolume, snapshotsOf, volumeIds, volumeOf } from "../../../contract/rig.ts";
import { atEachStep } from "../../../contract/steps.ts";
import { nfsCache, nfsClients } from "../../../fakes/zfs/nfsd.ts";
import { type ZfsRig, zfsRig } from "../zfs-rig.ts";
import { claimsOf, giveUp, make, retentionOf, state, take, tenant } from "./claims-rig.ts";

// Volumes that are given up instead of deleted, and what their claims get again.

const call = callWith();
const open = perTest((driver: string = "zfs-generic-nfs") => zfsRig({ driver, instanceId: "east" }));
const openWith = perTest(zfsRig);
const givenUp = async (driver?: string) => giveUp(await open(driver));

describe.each(["zfs-generic-nfs", "zfs-generic-smb", "zfs-generic-nvmeof", "zfs-local-dataset", "zfs-local-zvol"])(
  "%s",
  driver => {
    test("a class that keeps its volumes gives them up instead of deleting them, also with snapshots", async () => {
      const rig = await givenUp(driver);
      expect([await state(rig), await rig.read(await getVolume(rig.open(), "pvc-1"))]).toEqual([
        "pvc-1 released",
        "data",
      ]);
      const before = await rig.state();
      await rig.open().delete("pvc-1", call);
      expect(await rig.state()).toEqual(before);
      // Its own name gets it again, and keeps it.
      await make(rig.open());
      expect(await state(rig)).toBe("pvc-1");
      await snapshotsOf(rig.open()).create("s", "pvc-1", {}, call);
      await rig.open().delete("pvc-1", call);
      expect(await state(rig)).toBe("pvc-1 released");
    });

    test("a volume of another class is deleted, also one of a claim; one of its connection is given up", async () => {
      const rig = await open(driver);
      await make(rig.open(), false);
      await rig.open().delete("pvc-1", call);
      expect(await rig.remains()).toEqual([]);
      await make(rig.open(), false);
      expect(await retentionOf(rig.open()).release("pvc-1", call)).toBe(true);
      expect(await state(rig)).toBe("pvc-1 released");
      expect(await retentionOf(rig.open()).release("absent", call)).toBe(false);
      await rig.open().create(volumeOf("pvc-2"), call);
      expect(await retentionOf(rig.open()).release("pvc-2", call)).toBe(false);
    });
  },
);

describe.each(["zfs-generic-nfs", "zfs-generic-iscsi"])("%s", driver => {
  test("a volume that was given up goes to one claim with its data, once, and repeatedly to the same request", async () => {
    const rig = await givenUp(driver);
    const [found] = await claimsOf(rig.open()).ofClaim("shop/data", call);
    expect(found).toMatchObject({ instance: "east", tenure: { released: found?.identity }, volume: { id: "pvc-1" } });
    expect(await claimsOf(rig.open()).ofClaim("shop/dat", call)).toEqual([]);
    const volume = await take(rig.open(), "pvc-2");
    expect(await rig.read(volume)).toBe("data");
    expect(await take(rig.open(), "pvc-2")).toEqual(volume);
    expect(await state(rig)).toBe("pvc-2");
    expect(await codeOf(take(rig.open(), "pvc-3"))).toBe("aborted");
    // A late repeat of the request that has made it does not get the volume of another one.
    expect(await codeOf(make(rig.open()))).toBe("already-exists");
    // It is kept from then on: DeleteVolume does not say whose the volume was.
    await rig.open().delete("pvc-1", call);
    expect([await state(rig), await volumeIds(rig.open())]).toEqual(["pvc-2 released", ["pvc-1"]]);
    await take(rig.open(), "pvc-3");
    expect(await rig.read(volume)).toBe("data");
  });

  test("one that was not given up, of another claim or kind, or that is a copy is not taken, and nothing changes", async () => {
    const rig = await open(driver);
    await make(rig.open());
    const before = await rig.state();
    expect(await codeOf(take(rig.open(), "pvc-2"))).toBe("aborted");
    expect(await codeOf(claimsOf(rig.open()).take("absent", tenant("pvc-2"), call))).toBe("not-found");
    expect(await rig.state()).toEqual(before);
    await rig.open().delete("pvc-1", call);
    const after = await rig.state();
    for (const wrong of [{ claim: "shop/other" }, { shape: "block" }])
      expect(await codeOf(claimsOf(rig.open()).take("pvc-1", { ...tenant("pvc-2"), ...wrong }, call))).toBe("aborted");
    expect(await rig.state()).toEqual(after);
    rig.fake.with(pools => {
      const thing = pools.find("tank/k/v/pvc-1");
      if (thing) thing.guid = "4711";
    });
    expect(await codeOf(take(rig.open(), "pvc-2"))).toBe("aborted");
  });

  test("an adoption that dies at any step leaves the volume to the same request, with its data, and to no other", async () => {
    const rig = await givenUp(driver);
    let round = 1;
    await atEachStep(
      (step, when) => {
        const { driver: dying, dead } = rig.dying(step, when);
        return { work: () => take(dying, `pvc-r${round}`), dead };
      },
      async () => {
        const holder = `pvc-r${round++}`;
        const volume = await take(rig.open(), holder);
        expect([await rig.read(volume), await state(rig)]).toEqual(["data", holder]);
        expect(await codeOf(take(rig.open(), "pvc-other"))).toBe("aborted");
        await rig.open().delete("pvc-1", call);
      },
    );
    expect(round).toBeGreaterThan(4);
  });

  test("of two controllers that adopt a volume at once, one has it, at each step of the first", async () => {
    const rig = await givenUp(driver);
    const winners: string[] = [];
    for (let at = 1; ; at++) {
      let second: string | undefined;
      const first = rig.after(async (step): Promise<"run"> => {
        if (step === at) second = await codeOf(take(rig.open(), "pvc-second"));
        return "run";
      });
      const answer = await codeOf(take(first, "pvc-first"));
      if (second === undefined) break;
      const holder = await state(rig);
      expect([at, answer, second, holder]).toEqual(
        second === "ok" ? [at, "aborted", "ok", "pvc-second"] : [at, "ok", "aborted", "pvc-first"],
      );
      winners.push(holder);
      await rig.open().delete("pvc-1", call);
    }
    expect(new Set(winners)).toEqual(new Set(["pvc-first", "pvc-second"]));
  });

  test("a deletion that began before a volume was given up and adopted does not destroy it, at any step", async () => {
    const rig = await open(driver);
    let adoptions = 0;
    for (let at = 1, hasActed = true; hasActed; at++) {
      hasActed = false;
      const volume = await make(rig.open(), false);
      await rig.write(volume, "data");
      let isTaken = false;
      const old = rig.after(async (step): Promise<"run"> => {
        if (step !== at) return "run";
        hasActed = true;
        // Another controller of the connection, whose file says by now that volumes are retained.
        const given = await codeOf(retentionOf(rig.open()).release("pvc-1", call));
        isTaken = given === "ok" && (await codeOf(take(rig.open(), "pvc-2"))) === "ok";
        return "run";
      });
      await codeOf(old.delete("pvc-1", call));
      if (isTaken) {
        adoptions++;
        const kept = await getVolume(rig.open(), "pvc-1");
        expect([at, await rig.read(kept)]).toEqual([at, "data"]);
        expect(await take(rig.open(), "pvc-2")).toMatchObject({ id: "pvc-1" });
      }
      rig.fake.with(pools => {
        const own = pools.find("tank/k/v/pvc-1")?.own;
        for (const key of ["csimux:tenure", "csimux:retained"]) if (own) delete own[key];
      });
      await rig.open().delete("pvc-1", call);
    }
    expect(adoptions).toBeGreaterThan(0);
  });
});

const unused = (rig: ZfsRig): Promise<void> => claimsOf(rig.open()).unused("pvc-1", call);

test("while an NFS client has a file open, a volume is not adopted", async () => {
  const rig = await givenUp();
  const place = rig.fake.place("tank/k/v/pvc-1");
  nfsCache(rig.fake.folder, [place]);
  nfsClients(rig.fake.folder, [{ id: 3, open: [place] }]);
  const taken = take(rig.open(), "pvc-2");
  expect(await codeOf(taken)).toBe("failed-precondition");
  await expect(taken).rejects.toThrow("NFS clients hold files");
  await expect(unused(rig)).rejects.toThrow("NFS clients hold files");
  expect(await state(rig)).toBe("pvc-1 released");
  nfsClients(rig.fake.folder, []);
  await unused(rig);
  expect(await state(rig)).toBe("pvc-1 released");
  expect(await rig.read(await take(rig.open(), "pvc-2"))).toBe("data");
});

test("where the account may not ask who uses a volume, that is not adopted", async () => {
  const options = { driver: "zfs-generic-nfs", instanceId: "east", zfs: { cli: { sudoEnabled: true } } };
  const rig = await openWith({ ...options, programs: true });
  const sudo = (text: string) =>
    writeFileSync(join(rig.fake.bin, "sudo"), `#!/bin/sh\nshift\n${text}\n`, { mode: 0o755 });
  sudo(`[ "$1" = zfs ] && exec "$@"\necho "sudo: a password is required" >&2\nexit 1`);
  await giveUp(rig);
  const taken = take(rig.open(), "pvc-2");
  expect(await codeOf(taken)).toBe("permission-denied");
  await expect(taken).rejects.toThrow("sudo: a password is required");
  await expect(unused(rig)).rejects.toThrow("sudo: a password is required");
  expect(await state(rig)).toBe("pvc-1 released");
  sudo('exec "$@"');
  expect(await rig.read(await take(rig.open(), "pvc-2"))).toBe("data");
});

test("while an initiator has a session, a volume is not adopted", async () => {
  const rig = await givenUp("zfs-generic-iscsi");
  const { context } = await getVolume(rig.open(), "pvc-1");
  const acl = join(rig.fake.folder, "lio/iscsi", context["iqn"] ?? "", "tpgt_1/acls/iqn.2024-01.org.example:node");
  mkdirSync(acl, { recursive: true });
  writeFileSync(join(acl, "info"), "InitiatorName: x\nLIO Session ID: 1\n");
  const taken = take(rig.open(), "pvc-2");
  expect(await codeOf(taken)).toBe("failed-precondition");
  await expect(taken).rejects.toThrow("is still connected; the claim gets the volume once that has ended");
  await expect(unused(rig)).rejects.toThrow("is still connected");
  expect(await state(rig)).toBe("pvc-1 released");
  writeFileSync(join(acl, "info"), "No active iSCSI Session for Initiator Endpoint: x\n");
  await unused(rig);
  expect(await rig.read(await take(rig.open(), "pvc-2"))).toBe("data");
});

test("drivers whose storage does not tell who uses a volume adopt none, and a connection without instance_id neither", async () => {
  for (const driver of ["zfs-generic-smb", "zfs-generic-nvmeof", "zfs-local-dataset", "zfs-local-zvol"])
    expect(retentionOf((await open(driver)).open()).claims).toBeUndefined();
  const rig = await zfsRig({ driver: "zfs-generic-nfs" });
  expect(await codeOf(claimsOf(rig.open()).ofClaim("shop/data", call))).toBe("failed-precondition");
  await rig.close();
});
