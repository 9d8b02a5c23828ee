import { describe, expect, test } from "bun:test";
import { CsiError } from "../../../lib/core/errors.ts";
import { apiOf } from "../../../lib/drivers/truenas/api.ts";
import { ApiError, apiErrorMapping, isMissing, LostJob } from "../../../lib/drivers/truenas/api-error.ts";
import { Client } from "../../../lib/drivers/truenas/client.ts";
import { type HttpConnection, serverOf } from "../../../lib/drivers/truenas/server.ts";
import { connectionTo, errorOf, make, never, outOfTime, withApi, withDouble } from "../../fakes/truenas/client-rig.ts";
import { type Double, startDouble } from "../../fakes/truenas/double.ts";
import { numberOf, versions } from "../../fakes/truenas/versions.ts";
import { pause } from "../../waiting.ts";

const socketVersions = ["25.04", "25.10", "26.0"] as const;

describe("one client for every version", () => {
  for (const version of versions) {
    test(`${version}: creates, reads, changes and deletes a dataset and a share, with the same errors as the others`, async () => {
      await withApi(version, async (api, double) => {
        expect((await api.version(never)).number).toBe(Number(version.replace(".", "").padEnd(4, "0")));
        await make(api, "tank/a b");
        const [found] = (await api.call("pool.dataset.query", [[["id", "=", "tank/a b"]], {}], never)) as {
          id: string;
        }[];
        expect(found?.id).toBe("tank/a b");
        const change = { user_properties_update: [{ key: "a:b", value: "1" }] };
        const changed = api.call("pool.dataset.update", ["tank/a b", change], never);
        if (numberOf(version) < 2108)
          expect(await errorOf(changed)).toMatchObject({ problems: [{ attribute: "user_properties_update" }] });
        else expect(await changed).toMatchObject({ user_properties: { "a:b": { rawvalue: "1" } } });
        const path = "/mnt/tank/a b";
        const share = (await api.call(
          "sharing.nfs.create",
          [numberOf(version) < 2212 ? { paths: [path] } : { path }],
          never,
        )) as { id: number };
        expect(await api.call("sharing.nfs.query", [[["id", "=", share.id]]], never)).toHaveLength(1);
        expect(await api.call("sharing.nfs.delete", [share.id], never)).toBe(true);
        expect(isMissing(await errorOf(api.call("sharing.nfs.delete", [share.id], never)))).toBe(true);
        const wrong = await errorOf(api.call("pool.dataset.create", [{ name: "tank/c", colour: "red" }], never));
        expect(wrong).toBeInstanceOf(ApiError);
        expect((wrong as ApiError).problems[0]?.attribute).toEndWith("colour");
        expect(apiErrorMapping(wrong)?.code).toBe("failed-precondition");
        await api.call("pool.dataset.delete", ["tank/a b", { recursive: false, force: true }], never);
        expect(Object.keys(double.state.datasets)).toEqual(["tank"]);
      });
    });

    test(`${version}: a job is awaited, its failure is reported, an unwanted job is aborted and a forgotten one is lost`, async () => {
      await withApi(version, async (api, double) => {
        await make(api, "tank/a");
        const path = "/mnt/tank/a";
        double.jobs.ms = 30;
        expect(await api.job("filesystem.setperm", [{ path, mode: "0777" }], never)).toBeNull();
        expect(double.state.datasets["tank/a"]?.mode).toBe(0o777);
        const failed = await errorOf(api.job("filesystem.setperm", [{ path: "/mnt/tank/b", mode: "777" }], never));
        expect(isMissing(failed)).toBe(true);
        double.jobs.ms = 60_000;
        const unwanted = await outOfTime(double, limit => api.job("filesystem.chown", [{ path, uid: 1 }], limit));
        const code = unwanted instanceof CsiError ? unwanted.code : apiErrorMapping(unwanted)?.code;
        expect(code).toBe("deadline-exceeded");
        const states = double.jobs.query([], {}) as { state: string }[];
        expect(states.at(-1)?.state).toBe("ABORTED");
        const lost = errorOf(api.job("filesystem.chown", [{ path, uid: 1 }], never));
        while ((double.jobs.query([], {}) as unknown[]).length < 4) await pause(5);
        double.restart();
        expect(await lost).toBeInstanceOf(LostJob);
      });
    });
  }
});

describe("the connection", () => {
  for (const version of socketVersions) {
    test(`${version}: many calls of several connections share one login and stay within the limit of the server`, async () => {
      await withApi(version, async (api, double, client) => {
        double.latencyMs = 2;
        const others = ["c2", "c3"].map(name => apiOf(client, name));
        const calls = Array.from({ length: 90 }, (_, n) => make([api, ...others][n % 3] ?? api, `tank/v${n}`));
        await Promise.all(calls);
        expect(double.accounts.logins).toBe(1);
        expect(double.open).toBe(1);
        expect(Object.keys(double.state.datasets)).toHaveLength(91);
      });
    });

    test(`${version}: an expired session costs one login, however many calls are affected`, async () => {
      await withApi(version, async (api, double) => {
        await make(api, "tank/a");
        double.accounts.expireAll();
        await Promise.all(Array.from({ length: 20 }, (_, n) => make(api, `tank/v${n}`)));
        expect(double.accounts.logins).toBe(2);
        expect(double.open).toBe(1);
      });
    });

    test(`${version}: a lost connection is opened again; a read is repeated, a change is not`, async () => {
      await withApi(version, async (api, double) => {
        await make(api, "tank/a");
        double.faults.loseOnce(/pool\.dataset\.query/, "before");
        expect(await api.call("pool.dataset.query", [[], {}], never)).toHaveLength(2);
        double.faults.loseOnce(/pool\.dataset\.create/, "after");
        expect(await errorOf(make(api, "tank/b"))).toMatchObject({ failure: "lost" });
        expect(double.requests.filter(({ method }) => method === "pool.dataset.create")).toHaveLength(2);
        expect(Object.keys(double.state.datasets)).toContain("tank/b");
        double.restart();
        await make(api, "tank/c");
        expect(double.accounts.logins).toBe(3);
      });
    });
  }

  test("a server that does not answer gets few logins, always below its limit", async () => {
    await withDouble({ version: "25.10", loginLimit: 20 }, async double => {
      const client = new Client(serverOf(connectionTo(double)));
      const api = apiOf(client, "c1");
      for (let n = 0; n < 40; n++) {
        await errorOf(api.call("system.version", [], never));
        double.cut();
      }
      expect(double.accounts.logins).toBeLessThan(20);
      client.close();
    });
  });

  test("a request that is too long for the server is not sent", async () => {
    await withApi("25.10", async (api, double) => {
      const value = "x".repeat(1000);
      const many = Array.from({ length: 70 }, (_, n) => ({ key: `a:${n}`, value }));
      const error = await errorOf(api.call("pool.dataset.update", ["tank", { user_properties_update: many }], never));
      expect(apiErrorMapping(error)).toMatchObject({ code: "failed-precondition" });
      expect(double.open).toBe(1);
    });
  });
});

describe("the login", () => {
  const passwords = { apiKey: undefined, username: "csi", password: "correct horse" };
  for (const version of versions) {
    test(`${version}: works with a key, a key and its user, and a password`, async () => {
      for (const more of [{}, { username: "csi" }, passwords])
        await withApi(
          version,
          async api => expect(await api.call("system.version", [], never)).toContain(version),
          more,
        );
    });

    test(`${version}: wrong, expired or revoked credentials are reported and not shown`, async () => {
      const text = async (more: Partial<HttpConnection>, before?: (double: Double) => void) => {
        let said = "";
        await withApi(
          version,
          async (api, double) => {
            before?.(double);
            const error = await errorOf(api.call("pool.dataset.query", [[], {}], never));
            said = `${apiErrorMapping(error)?.code}: ${apiErrorMapping(error)?.text} ${error}`;
          },
          more,
        );
        return said;
      };
      const wrong = await text({ apiKey: "7-hunter2" });
      expect(wrong).toStartWith("unauthenticated");
      expect(wrong).not.toContain("hunter2");
      expect(await text({ ...passwords, password: "hunter2" })).not.toContain("hunter2");
      expect(await text({ username: "csi" }, double => double.accounts.revoke("1-secret"))).toStartWith(
        "unauthenticated",
      );
    });
  }

  test("an API key is never sent unencrypted to another machine", async () => {
    expect(() => serverOf({ host: "nas.example.org", allowInsecure: false, apiKey: "1-secret" })).toThrow(
      /never sent unencrypted/,
    );
    expect(() => serverOf({ host: "10.0.0.1", port: 80, allowInsecure: true, apiKey: "1-secret" })).toThrow(/https/);
    expect(() =>
      serverOf({ host: "10.0.0.1", protocol: "http", port: 443, allowInsecure: true, apiKey: "1-secret" }),
    ).toThrow();
    expect(serverOf({ host: "10.0.0.1", port: 443, allowInsecure: false, apiKey: "1-secret" }).http.protocol).toBe(
      "https",
    );
    expect(serverOf({ host: "10.0.0.1", allowInsecure: false, username: "a", password: "b" }).http.port).toBe(80);
  });

  test("the double revokes a key that arrives unencrypted, as TrueNAS does", async () => {
    await withDouble({ version: "25.10", trustLoopback: false }, async double => {
      const client = new Client(serverOf(connectionTo(double)));
      await errorOf(apiOf(client, "c").call("system.version", [], never));
      expect(double.accounts.isRevoked("1-secret")).toBe(true);
      client.close();
    });
  });

  test("at the standby controller of a pair leads to the active one if the file names it", async () => {
    await withApi(
      "25.10",
      async (api, standby) => {
        const active = await startDouble({ version: "25.10", address: "127.0.0.2", port: standby.port });
        try {
          standby.redirect = [`https://127.0.0.2:${standby.port}`];
          await make(api, "tank/a");
          expect(Object.keys(active.state.datasets)).toContain("tank/a");
          expect(Object.keys(standby.state.datasets)).not.toContain("tank/a");
        } finally {
          await active.close();
        }
      },
      { username: "csi", failoverHosts: ["127.0.0.2"] },
    );
  });

  for (const [why, failoverHosts, urlOf] of [
    ["a host that the file does not name", [], (port: number) => `http://127.0.0.2:${port}`],
    ["another port of a host that it names", ["127.0.0.2"], () => "http://127.0.0.2:1"],
    ["no address", ["127.0.0.2"], () => "http://"],
  ] as const)
    test(`is not repeated elsewhere if the server redirects it to ${why}`, async () => {
      await withApi(
        "25.10",
        async (api, standby) => {
          const stranger = await startDouble({ version: "25.10", address: "127.0.0.2", port: standby.port });
          try {
            standby.redirect = [urlOf(standby.port)];
            const error = await errorOf(api.call("system.version", [], never));
            expect(apiErrorMapping(error)).toMatchObject({
              code: "failed-precondition",
              text: expect.stringContaining("failoverHosts"),
            });
            expect(stranger.accounts.logins + stranger.accounts.restLogins + stranger.sockets).toBe(0);
          } finally {
            await stranger.close();
          }
        },
        { username: "csi", failoverHosts },
      );
    });

  test("is never repeated over REST or without TLS after a redirect", async () => {
    await withApi(
      "25.10",
      async (api, standby) => {
        const old = await startDouble({ version: "24.10", address: "127.0.0.2", port: standby.port });
        try {
          standby.redirect = [`http://127.0.0.2:${standby.port}`];
          const error = await errorOf(api.call("system.version", [], never));
          expect(apiErrorMapping(error)?.text).toContain("does not answer as TrueNAS does");
          expect(old.accounts.restLogins).toBe(0);
        } finally {
          await old.close();
        }
      },
      { username: "csi", failoverHosts: ["127.0.0.2"] },
    );
  });

  test("of an account that lacks a role is followed by a refusal that names the role", async () => {
    await withDouble({ version: "25.10" }, async double => {
      double.accounts.addKey("2-weak", ["DATASET_READ"]);
      const client = new Client(serverOf(connectionTo(double, { apiKey: "2-weak" })));
      const api = apiOf(client, "c");
      expect(await api.call("pool.dataset.query", [[], {}], never)).toHaveLength(1);
      const error = await errorOf(make(api, "tank/a"));
      expect(apiErrorMapping(error)).toMatchObject({
        code: "permission-denied",
        text: expect.stringContaining("DATASET_WRITE"),
      });
      expect(double.accounts.logins).toBe(1);
      client.close();
    });
  });

  test("is hidden in every part of an error if the server repeats it", async () => {
    await withApi("25.10", async api => {
      const field = { name: "tank/1-secret/x", "1-secret": "red" };
      const error = (await errorOf(api.call("pool.dataset.create", [field], never))) as ApiError;
      expect(error.problems[0]?.attribute).toContain("***");
      expect(`${JSON.stringify(error)} ${error.message} ${error.stack}`).not.toContain("1-secret");
    });
  });

  test("from an address that is not allowed fails with that reason", async () => {
    await withApi("25.10", async (api, double) => {
      double.closedToAll = true;
      const error = await errorOf(api.call("system.version", [], never));
      expect(apiErrorMapping(error)).toMatchObject({
        code: "unavailable",
        text: expect.stringContaining("not allowed"),
      });
    });
  });
});
