import { expect, test } from "bun:test";
import { type Api, apiOf } from "../../../lib/drivers/truenas/api.ts";
import { apiErrorMapping } from "../../../lib/drivers/truenas/api-error.ts";
import { Client } from "../../../lib/drivers/truenas/client.ts";
import { serverOf } from "../../../lib/drivers/truenas/server.ts";
import { ZfsApi } from "../../../lib/drivers/truenas/zfs/zfs-api.ts";
import { property } from "../../../lib/drivers/zfs/properties.ts";
import { callWith, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { connectionTo, withDouble } from "../../fakes/truenas/client-rig.ts";
import { numberOf, recentVersions } from "../../fakes/truenas/versions.ts";
import { pause } from "../../waiting.ts";
import { on, parent } from "./rig.ts";

// Up to 25.10 most queries of snapshots read every snapshot of every pool with all properties, which takes minutes on a system with tens
// of thousands of periodic snapshots.

const call = callWith();
const never = new AbortController().signal;
const old = recentVersions.filter(version => numberOf(version) < 2600);

test.each(old)("on TrueNAS %s no operation reads the snapshots of other datasets", async version => {
  for (const protocol of ["nfs", "iscsi"] as const) {
    await on({ version }, protocol, async (driver, double) => {
      await driver.create(volumeOf("theirs"), call);
      const { id } = await driver.create(volumeOf("ours"), call);
      const [taken] = [await snapshotsOf(driver).create("first", "theirs", {}, call)];
      const made = double.state.snapshots[`${parent}/${taken?.volumeId ?? "theirs"}@${taken?.id.split("@")[1]}`];
      for (let n = 0; n < 500 && made; n++)
        double.state.snapshots[`${parent}/theirs@auto-${n}`] = { ...made, name: `auto-${n}`, user: {} };
      expect(Object.keys(double.state.snapshots)).toHaveLength(501);
      double.rowsRead = 0;
      const snapshot = await snapshotsOf(driver).create("second", id, {}, call);
      await snapshotsOf(driver).delete(snapshot.id, call);
      await driver.delete(id, call);
      expect(double.rowsRead).toBeLessThan(12);
    });
  }
});

test("a snapshot whose name looks like a number is found over REST", async () => {
  for (const name of ["1e5", "-5", "1.5", "NaN", "[1]", "17"]) {
    await on({ version: "24.10" }, "nfs", async driver => {
      const [a, b] = [await driver.create(volumeOf("a"), call), await driver.create(volumeOf("b"), call)];
      const first = await snapshotsOf(driver).create(name, a.id, {}, call);
      expect((await snapshotsOf(driver).create(name, a.id, {}, call)).id).toBe(first.id);
      const second = snapshotsOf(driver).create(name, b.id, {}, call);
      expect(await second.catch((error: { readonly code?: string }) => error.code)).toBe("already-exists");
    });
  }
});

test("an upgrade between the query of the version and the request hides no property of a snapshot, and loses none", async () => {
  await withDouble({ version: "25.10" }, async double => {
    const client = new Client(serverOf(connectionTo(double)));
    const api = apiOf(client, "c1");
    await api.call("pool.dataset.create", [{ name: "tank/a", type: "FILESYSTEM" }], never);
    const upgrade = async () => {
      double.restart("26.0");
      while ((await api.version(never)).number < 2600) await pause(5);
    };
    const upgradedFirst: Api = {
      where: api.where,
      version: signal => api.version(signal),
      job: (...asked) => api.job(...asked),
      call: async (method, params, signal) => {
        if (method.startsWith("pool.snapshot.")) await upgrade();
        return api.call(method, params, signal);
      },
    };
    const zfs = new ZfsApi(upgradedFirst, "GENERIC");
    const query = { names: ["tank/a@s"], properties: ["a:name"] };
    const { entries } = await zfs.snapshot(["tank/a@s"], { "a:name": "mine" }, query, never);
    expect(entries.get("tank/a@s")?.properties.get("a:name")?.value).toBe("mine");
    double.restart("25.10");
    while ((await api.version(never)).number !== 2510) await pause(5);
    const error = await zfs.set("tank/a@s", { "a:name": "other" }, never).catch((reason: unknown) => reason);
    expect(apiErrorMapping(error)?.code).toBe("unavailable");
    client.close();
  });
});

test.each(recentVersions)(
  "TrueNAS %s tells how many holds a snapshot has, by its name and among others",
  async version => {
    await withDouble({ version }, async double => {
      const client = new Client(serverOf(connectionTo(double)));
      const zfs = new ZfsApi(apiOf(client, "c1"), "GENERIC");
      const query = { names: ["tank", "tank/a@s"], properties: ["type", "userrefs"] };
      await zfs.create({ name: "tank/a", values: {}, permissions: undefined, volsize: undefined }, false, query, never);
      await zfs.snapshot(["tank/a@s"], {}, query, never);
      const counts = async () => {
        const named = (await zfs.read(query, never)).get("tank/a@s");
        const [listed] = await zfs.below("tank/a", ["snapshot"], ["userrefs"], 1, never);
        return [named, listed].map(entry => entry?.properties.get("userrefs")?.value);
      };
      expect(await counts()).toEqual(["0", "0"]);
      const held = double.state.snapshots["tank/a@s"];
      if (held) held.holds = 2;
      expect(await counts()).toEqual(["2", "2"]);
      client.close();
    });
  },
);

test.each(old)("on TrueNAS %s a property of a snapshot is set and removed again", async version => {
  await withDouble({ version }, async double => {
    const client = new Client(serverOf(connectionTo(double)));
    const zfs = new ZfsApi(apiOf(client, "c1"), "GENERIC");
    const query = { names: ["tank", "tank/a@s"], properties: ["type"] };
    await zfs.create({ name: "tank/a", values: {}, permissions: undefined, volsize: undefined }, false, query, never);
    await zfs.snapshot(["tank/a@s"], { "a:name": "mine" }, query, never);
    await zfs.set("tank/a@s", { "a:name": undefined, "a:other": "set" }, never);
    expect(double.state.snapshots["tank/a@s"]?.user).toEqual({ "a:other": "set" });
    client.close();
  });
});

test.each(recentVersions)(
  "on TrueNAS %s a finished volume is never taken for an unfinished one, whatever its parent has",
  async version => {
    await withDouble({ version }, async double => {
      const client = new Client(serverOf(connectionTo(double)));
      const zfs = new ZfsApi(apiOf(client, "c1"), "GENERIC");
      const done = { [property.managed]: "true", [property.success]: "true" };
      const query = { names: ["tank", "tank/a", "tank/a/v"], properties: ["type"] };
      for (const name of ["tank/a", "tank/a/v"])
        await zfs.create({ name, values: done, permissions: undefined, volsize: undefined }, false, query, never);
      const refused = zfs.destroy("tank/a/v", { unfinished: true }, never).catch((reason: unknown) => reason);
      expect(await refused).toMatchObject({ failure: "changed" });
      expect(Object.keys(double.state.datasets)).toContain("tank/a/v");
      client.close();
    });
  },
);

const many = 2000;

test.each(recentVersions)(
  "on TrueNAS %s, 2,000 volumes and as many snapshots are listed, and creations meanwhile succeed",
  async version => {
    await on({ version }, "nfs", async (driver, double) => {
      const { id } = await driver.create(volumeOf("first"), call);
      const { id: taken } = await snapshotsOf(driver).create("snapshot", id, {}, call);
      const { datasets, snapshots } = double.state;
      const [volume, snapshot] = [datasets[`${parent}/${id}`], snapshots[`${parent}/${taken}`]];
      if (!volume || !snapshot) throw new Error(`the double has ${Object.keys(snapshots)}`);
      for (let n = 1; n < many; n++) {
        const name = `${parent}/copy-${n}`;
        datasets[name] = { ...volume, name };
        snapshots[`${name}@${snapshot.name}`] = { ...snapshot, dataset: name };
      }
      const page = { max: 10, token: undefined };
      const [listed, shown, health, ...made] = await Promise.all([
        driver.inventory?.list(page, call),
        snapshotsOf(driver).list({ volumeId: undefined }, page, call),
        driver.health?.look(call),
        ...[1, 2, 3].map(n => driver.create(volumeOf(`meanwhile-${n}`), call)),
      ]);
      expect(listed?.items).toHaveLength(10);
      expect(shown.items).toHaveLength(10);
      expect(health?.storage).toEqual([]);
      expect(made).toHaveLength(3);
    });
  },
  120_000,
);
