import { describe, expect, test } from "bun:test";
import { callWith, gib, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { numberOf, recentVersions } from "../../fakes/truenas/versions.ts";
import { pause } from "../../waiting.ts";
import { on, parent, refusal, remainsOf, type Work } from "./rig.ts";

// What a TrueNAS refuses, in the words and numbers of each version, and what csimux makes of it.

const call = callWith();

for (const version of recentVersions) {
  describe.concurrent(`on TrueNAS ${version}`, () => {
    test("an NFS share goes with its volume; up to 25.10 one that a person has disabled stays, and is named by the next volume", async () => {
      await on({ version }, "nfs", async (driver, double) => {
        const { id } = await driver.create(volumeOf("a"), call);
        await driver.delete(id, call);
        expect(remainsOf(double)).toEqual([]);
        await driver.create(volumeOf("a"), call);
        for (const row of double.state.tables.nfs) row["enabled"] = false;
        await driver.delete(id, call);
        const stays = numberOf(version) < 2600;
        expect(remainsOf(double)).toEqual(stays ? [`nfs "/mnt/${parent}/a"`] : []);
        const { message } = await refusal(driver.create(volumeOf("a"), call));
        expect(message).toContain(stays ? "is disabled; enable or remove it" : "");
      });
    });

    test.skipIf(numberOf(version) < 2510)("a busy volume that was made again meanwhile is not deleted", async () => {
      await on({ version }, "nfs", async (driver, double) => {
        const { id } = await driver.create(volumeOf("a"), call);
        const dataset = double.state.datasets[`${parent}/${id}`];
        double.busy.add(`${parent}/${id}`);
        const deleted = refusal(driver.delete(id, call));
        const asked = () =>
          double.requests.some(({ method }) => /^(?:pool\.dataset\.delete|zfs\.resource\.destroy)$/.test(method));
        while (!asked()) await pause(5);
        if (dataset) dataset.guid = "4711";
        double.busy.clear();
        expect((await deleted).code).toBe("aborted");
        expect(double.state.datasets[`${parent}/${id}`]).toBe(dataset);
      });
    });

    test("a detached snapshot that exists is not refused for good, although its temporary snapshot is held and stays", async () => {
      await on({ version }, "nfs", async (driver, double) => {
        await driver.create(volumeOf("a"), call);
        const take = () => snapshotsOf(driver).create("s", "a", { detachedSnapshots: "true" }, call);
        const ofCopy = () =>
          Object.entries(double.state.snapshots).flatMap(([name, each]) =>
            name.startsWith("tank/k8s/s/a/s@") ? [each] : [],
          );
        double.intercept = method => {
          // Another program holds each snapshot that it finds there.
          if (/snapshot\.(?:delete|destroy)$/.test(method)) for (const each of ofCopy()) each.holds = 1;
          return undefined;
        };
        // Up to 25.10 a held snapshot is only called busy.
        expect((await refusal(take())).code).toBe(numberOf(version) < 2600 ? "aborted" : "unavailable");
        expect(double.state.datasets["tank/k8s/s/a/s"]).toBeDefined();
        double.intercept = undefined;
        for (const each of ofCopy()) each.holds = 0;
        await snapshotsOf(driver).delete((await take()).id, call);
        expect(remainsOf(double).filter(name => /@|k8s\/s/.test(name))).toEqual([]);
      });
    });

    test("a clone is refused if its name is taken meanwhile, and the dataset with the name stays", async () => {
      await on({ version }, "nfs", async (driver, double) => {
        const { id } = await driver.create(volumeOf("a"), call);
        const { id: snapshot } = await snapshotsOf(driver).create("s", id, {}, call);
        const made = double.state.datasets[`${parent}/a`];
        double.intercept = method => {
          // 26 makes a clone under another name and renames it.
          if (made && /snapshot\.clone$|dataset\.rename$/.test(method))
            double.state.datasets[`${parent}/b`] ??= { ...made, name: `${parent}/b`, user: {}, guid: "1" };
          return undefined;
        };
        const spec = volumeOf("b", gib, { kind: "snapshot", id: snapshot });
        expect(await refusal(driver.create(spec, call))).toMatchObject({ code: "already-exists" });
        expect(double.state.datasets[`${parent}/b`]).toMatchObject({ guid: "1", user: {} });
      });
    });

    test("a thick volume is refused if space is lacking, and nothing is left", async () => {
      await on(
        { version },
        "iscsi",
        async (driver, double) => {
          expect(await refusal(driver.create(volumeOf("a", 4096n * gib), call))).toMatchObject({
            code: "resource-exhausted",
          });
          expect(remainsOf(double)).toEqual([]);
        },
        { zfs: { zvolEnableReservation: true } },
      );
    });

    test.skipIf(numberOf(version) < 2202)(
      "a volume below a read-only dataset is refused, and the message says what to change",
      async () => {
        await on({ version }, "nfs", async (driver, double) => {
          await driver.delete((await driver.create(volumeOf("a"), call)).id, call);
          const above = double.state.datasets[parent];
          if (above) above.native["readonly"] = "on";
          expect(await refusal(driver.create(volumeOf("a"), call))).toMatchObject({
            code: expect.stringMatching(/^(?:failed-precondition|invalid-argument)$/),
            message: expect.stringContaining(`Turn off readonly mode on ${parent}`),
          });
          expect(remainsOf(double)).toEqual([]);
        });
      },
    );

    test.skipIf(numberOf(version) < 2310)(
      "an acltype that does not fit the aclmode is refused in the server's words, and nothing is left",
      async () => {
        await on({ version }, "nfs", async (driver, double) => {
          await driver.delete((await driver.create(volumeOf("a"), call)).id, call);
          const spec = { ...volumeOf("a"), parameters: { "zfs.acltype": "nfsv4" } };
          expect(await refusal(driver.create(spec, call))).toMatchObject({
            code: expect.stringMatching(/^(?:failed-precondition|invalid-argument)$/),
            message: expect.stringContaining("DISCARD aclmode may not be set for NFSv4 acl type"),
          });
          expect(remainsOf(double)).toEqual([]);
        });
      },
    );

    test("a portal that the file names twice is refused in the server's words", async () => {
      const group = { targetGroupPortalGroup: 1, targetGroupInitiatorGroup: 1 };
      const more = { iscsi: { targetPortal: "nas:3260", targetGroups: [group, group] } };
      const work: Work = async driver =>
        expect(await refusal(driver.create(volumeOf("a"), call))).toMatchObject({
          code: "failed-precondition",
          message: expect.stringContaining("Portal 1 cannot be duplicated on a target"),
        });
      await on({ version }, "iscsi", work, { more });
    });
  });
}
