import { describe, expect, test } from "bun:test";
import { type Api, apiOf } from "../../../lib/drivers/truenas/api.ts";
import { LostJob } from "../../../lib/drivers/truenas/api-error.ts";
import { Client } from "../../../lib/drivers/truenas/client.ts";
import { serverOf } from "../../../lib/drivers/truenas/server.ts";
import { callWith, volumeOf } from "../../contract/rig.ts";
import { connectionTo, withDouble } from "../../fakes/truenas/client-rig.ts";
import type { Double } from "../../fakes/truenas/double.ts";
import { numberOf, recentVersions, scaleVersions, type Version } from "../../fakes/truenas/versions.ts";
import { drawn, everything } from "../../sample.ts";
import { pause } from "../../waiting.ts";
import { on, parent, refusal } from "./rig.ts";

const call = callWith();
const never = new AbortController().signal;
const limits = { answerMs: 5000, jobMs: 400, copyMs: 60_000, lateMs: 5000 };

async function withApi(
  version: Version,
  work: (api: Api, double: Double) => Promise<void>,
  within = limits,
): Promise<void> {
  await withDouble({ version }, async double => {
    const client = new Client(serverOf(connectionTo(double)), { limits: within });
    try {
      const api = apiOf(client, "c1");
      for (const name of ["a", "b"])
        await api.call("pool.dataset.create", [{ name: `tank/${name}`, type: "FILESYSTEM" }], never);
      await work(api, double);
    } finally {
      client.close();
    }
  });
}

const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );
const states = (double: Double) =>
  (double.jobs.query([], {}) as { method: string; state: string }[]).map(({ state }) => state);

/** As if another client had begun it. */
const others = (double: Double, path: string) =>
  double.jobs.begin("filesystem.setperm", [{ path, mode: "0700" }], () => null, {
    lock: { name: "perm_change", queue: 5 },
    fullAdmin: true,
  });

describe("permissions", () => {
  const zfs = { datasetPermissionsMode: "0777", datasetPermissionsUser: "1000", datasetPermissionsGroup: "3000" };
  const versionsAndJobs = scaleVersions.flatMap(version => [2, 25, 50].map(ms => ({ version, ms })));
  for (const { version, ms } of drawn(versionsAndJobs, 3)) {
    test(`of many volumes at once are set before their creations are answered: ${version}, jobs of ${ms} ms`, async () => {
      await on(
        { version },
        "nfs",
        async (driver, double) => {
          double.jobs.ms = ms;
          const made = Array.from({ length: everything ? 64 : 24 }, async (_, n) => {
            const { id } = await driver.create(volumeOf(`pvc-${n}`), call);
            expect(double.state.datasets[`${parent}/${id}`]).toMatchObject({ mode: 0o777, uid: 1000, gid: 3000 });
          });
          await Promise.all(made);
        },
        { zfs },
      );
    });
  }

  test("that a job reports as set but are not fail the creation", async () => {
    await on(
      { version: "25.10" },
      "nfs",
      async (driver, double) => {
        const { jobs } = double;
        const begin = jobs.begin.bind(jobs);
        jobs.begin = (method, args, _start, lock) => begin(method, args, () => null, lock);
        const { code, message } = await refusal(driver.create(volumeOf("pvc-1"), call));
        expect(code).toBe("aborted");
        expect(message).toContain("mode 0755 instead of 0777");
      },
      { zfs },
    );
  });
});

describe("a job", () => {
  for (const version of ["24.10", "25.04", "25.10"] as const) {
    test(`${version}: that the server discarded and answered with another's is started again`, async () => {
      const work = async (api: Api, double: Double) => {
        const release = double.jobs.hold();
        for (let n = 0; n < 6; n++) others(double, "/mnt/tank/b");
        const begun = (double.jobs.query([], {}) as unknown[]).length;
        const done = api.job("filesystem.setperm", [{ path: "/mnt/tank/a", mode: "0777" }], never);
        const isAnswered = () => {
          const at = double.requests.findIndex(({ method }) => method === "filesystem.setperm");
          return at >= 0 && at < double.requests.length - 1;
        };
        while (!isAnswered()) await pause(2);
        release();
        await done;
        expect(begun).toBe(6);
        expect(double.state.datasets["tank/a"]?.mode).toBe(0o777);
        const asked = double.requests.filter(({ method }) => method === "filesystem.setperm");
        expect(asked.length).toBeGreaterThan(1);
      };
      await withApi(version, work, { ...limits, jobMs: 60_000 });
    });
  }

  for (const version of recentVersions) {
    // One connection sends few such creations at once for this reason.
    test(`${version}: for the list of a new dataset for SMB is dropped where too many wait, up to 25.10`, async () => {
      await withDouble({ version }, async double => {
        const release = double.jobs.hold();
        const clients = Array.from({ length: 4 }, () => new Client(serverOf(connectionTo(double)), { limits }));
        const made = clients.flatMap((client, at) =>
          ["a", "b", "c"].map(async letter => {
            const name = `tank/${letter}-${at}`;
            const request = { name, type: "FILESYSTEM", share_type: "SMB" };
            await apiOf(client, "c1").call("pool.dataset.create", [request], never);
            return name;
          }),
        );
        while (double.requests.filter(({ method }) => method === "pool.dataset.create").length < 12) await pause(5);
        release();
        const without = (await Promise.all(made)).filter(name => double.state.datasets[name]?.acl === undefined);
        for (const client of clients) client.close();
        const isDropped = numberOf(version) >= 2410 && numberOf(version) < 2600;
        expect(without.length > 0).toBe(isDropped);
      });
    });

    test(`${version}: whose number and method belong to another after a restart is lost, not done`, async () => {
      await withApi(version, async (api, double) => {
        const snapshots = numberOf(version) < 2510 ? "zfs.snapshot" : "pool.snapshot";
        await api.call(`${snapshots}.create`, [{ dataset: "tank/a", name: "s" }], never);
        // Another one, and an equal one that began later.
        for (const [copy, next] of [
          [copyOf("tank/a", "tank/copy"), copyOf("tank/b", "tank/other")],
          [copyOf("tank/a", "tank/again"), copyOf("tank/a", "tank/again")],
        ] as const) {
          const release = double.jobs.hold();
          const looks = double.jobs.looks + 2;
          const lost = failure(api.job("replication.run_onetime", [copy], never));
          while (double.jobs.looks < looks) await pause(5);
          double.jobs.forget();
          release();
          double.jobs.begin("replication.run_onetime", [next], () => null);
          expect(await lost).toBeInstanceOf(LostJob);
          double.jobs.forget();
        }
      });
    });

    test(`${version}: that copies is not aborted, because its work would continue unseen`, async () => {
      await withApi(version, async (api, double) => {
        const snapshots = numberOf(version) < 2510 ? "zfs.snapshot" : "pool.snapshot";
        await api.call(`${snapshots}.create`, [{ dataset: "tank/a", name: "s" }], never);
        double.jobs.ms = 60_000;
        const leaving = new AbortController();
        const left = failure(api.job("replication.run_onetime", [copyOf("tank/a", "tank/copy")], leaving.signal));
        while (states(double).length === 0) await pause(5);
        leaving.abort(new Error("csimux stops"));
        expect(await left).toBeInstanceOf(Error);
        expect(states(double)).toEqual(["RUNNING"]);
        expect(double.requests.map(({ method }) => method)).not.toContain("core.job_abort");
      });
    });

    test(`${version}: that exceeds its time limit is aborted; another's never is`, async () => {
      await withApi(version, async (api, double) => {
        double.jobs.ms = 60_000;
        const late = await failure(api.job("filesystem.chown", [{ path: "/mnt/tank/a", uid: 1 }], never));
        expect(late).toMatchObject({ failure: "timeout", message: expect.stringContaining("was aborted") });
        expect(states(double)).toEqual(["ABORTED"]);
        if (version !== "24.10" && version !== "25.04" && version !== "25.10") return;
        for (let n = 0; n < 6; n++) others(double, "/mnt/tank/b");
        const discarded = await failure(api.job("filesystem.chown", [{ path: "/mnt/tank/a", uid: 1 }], never));
        expect(discarded).toMatchObject({ failure: "timeout" });
        expect(states(double).filter(state => state === "ABORTED")).toHaveLength(1);
      });
    });
  }
});

const copyOf = (from: string, to: string): object => ({
  direction: "PUSH",
  transport: "LOCAL",
  source_datasets: [from],
  target_dataset: to,
  name_regex: "^s$",
  recursive: false,
  retention_policy: "NONE",
  readonly: "IGNORE",
  properties: false,
  only_from_scratch: true,
});
