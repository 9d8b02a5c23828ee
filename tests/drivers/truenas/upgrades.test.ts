import { expect, test } from "bun:test";
import { apiErrorMapping, isMissing } from "../../../lib/drivers/truenas/api-error.ts";
import { errorOf, make, never, withApi } from "../../fakes/truenas/client-rig.ts";
import type { Delivery } from "../../fakes/truenas/transport/delivery.ts";
import { apiVersions } from "../../fakes/truenas/versions.ts";
import { pause } from "../../waiting.ts";

test("a client continues after upgrades of its system from REST to JSON-RPC and further", async () => {
  await withApi("24.10", async (api, double) => {
    await make(api, "tank/a");
    for (const version of ["25.10", "26.0"] as const) {
      double.away = true;
      double.cut();
      await errorOf(api.call("system.version", [], never));
      double.restart(version);
      double.away = false;
      while (apiErrorMapping(await errorOf(api.call("system.version", [], never)))) await pause(20);
      const rows = (await api.call("pool.dataset.query", [[], { extra: { retrieve_children: false } }], never)) as {
        id: string;
      }[];
      expect(rows.map(({ id }) => id)).toEqual(["tank", "tank/a"]);
      expect((await api.version(never)).text).toContain(version);
    }
  });
});

test("a system that is upgraded between the reading of its version and the login is asked for its version again", async () => {
  await withApi("26.0", async (api, double) => {
    let before: Delivery | undefined = { texts: [JSON.stringify(apiVersions("25.10"))], status: 200 };
    double.intercept = method => {
      if (method !== "/api/versions") return undefined;
      const answer = before;
      before = undefined;
      return answer;
    };
    expect(await errorOf(api.version(never))).toMatchObject({ failure: "unreachable" });
    while (apiErrorMapping(await errorOf(api.version(never)))) await pause(20);
    expect((await api.version(never)).text).toContain("26.0");
    expect(double.open).toBe(1);
  });
});

test("an answer of an upgraded system to an older request is never used", async () => {
  await withApi("24.10", async (api, double) => {
    await make(api, "tank/a");
    // The route of old is not there any more, which says nothing of the snapshot.
    double.version = "25.10";
    const error = await errorOf(api.call("zfs.snapshot.delete", ["tank/a@s", { defer: true }], never));
    expect(isMissing(error)).toBe(false);
    expect(apiErrorMapping(error)?.code).toBe("unavailable");
    expect((await api.version(never)).text).toContain("25.10");
    double.faults.loseOnce(/pool\.snapshot\.query/, "before");
    const cut = errorOf(api.call("pool.snapshot.query", [[["id", "=", "tank/a@s"]], {}], never));
    double.version = "26.0";
    expect(apiErrorMapping(await cut)?.code).toBe("unavailable");
  });
});
