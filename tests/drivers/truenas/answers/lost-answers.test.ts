import { describe, expect, test } from "bun:test";
import { type Api, apiOf } from "../../../../lib/drivers/truenas/api.ts";
import { Client } from "../../../../lib/drivers/truenas/client.ts";
import { serverOf } from "../../../../lib/drivers/truenas/server.ts";
import { type Limits, usualLimits } from "../../../../lib/drivers/truenas/transport.ts";
import { connectionTo, withDouble } from "../../../fakes/truenas/client-rig.ts";
import type { Double } from "../../../fakes/truenas/double.ts";
import { numberOf, recentVersions, type Version } from "../../../fakes/truenas/versions.ts";
import { pause } from "../../../waiting.ts";

const never = new AbortController().signal;
/** With room for moments in which a busy machine does nothing for this process. */
const limits = { answerMs: 2_500, jobMs: 60_000, copyMs: 60_000, lateMs: 1_000 };

async function withApi(
  version: Version,
  work: (api: Api, double: Double) => Promise<void>,
  within: Limits = limits,
): Promise<void> {
  await withDouble({ version }, async double => {
    const client = new Client(serverOf(connectionTo(double)), { limits: within });
    try {
      await work(apiOf(client, "c1"), double);
    } finally {
      client.close();
    }
  });
}

const outcome = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "ok",
    (error: { readonly failure?: string; readonly message: string }) => error.failure ?? error.message,
  );

const make = (api: Api, name: string) => api.call("pool.dataset.create", [{ name, type: "FILESYSTEM" }], never);
const list = (api: Api) => api.call("pool.dataset.query", [[], {}], never);
/** Waits until one connection is left; the server hears of the others' end a little later than the client ends them. */
async function closed(double: Double): Promise<void> {
  for (let left = 500; double.open > 1 && left > 0; left--) await pause(10);
  expect(double.open).toBe(1);
}

/** Over REST the limit of one request is that of its front end. */
const given = (version: Version): string => (numberOf(version) < 2504 ? "timeout" : "lost");

describe.concurrent("an answer that never comes", () => {
  for (const version of recentVersions) {
    test(`${version}: ends its call within the limit, and ten of them do not block the connection`, async () => {
      await withApi(version, async (api, double) => {
        await make(api, "tank/a");
        double.faults.silence(/pool\.dataset\.create/, "unanswered", 10);
        const began = performance.now();
        const lost = Array.from({ length: 10 }, (_, n) => outcome(make(api, `tank/lost${n}`)));
        await list(api);
        expect(performance.now() - began).toBeLessThan(2 * limits.answerMs);
        expect(await Promise.all(lost)).toEqual(lost.map(() => given(version)));
        // One after another, they would have taken ten times the limit. The volumes themselves can be changed again, too.
        expect(performance.now() - began).toBeLessThan(3 * limits.answerMs);
        // They had their effect: a retry finds out.
        expect(Object.keys(double.state.datasets)).toContain("tank/lost9");
        await make(api, "tank/b");
      });
    });

    test(`${version}: to a read is requested again, or reported as a failure of the connection`, async () => {
      await withApi(version, async (api, double) => {
        await make(api, "tank/a");
        double.faults.silence(/pool\.dataset\.query/, "unanswered", 1);
        expect(await outcome(list(api))).toBe(given(version) === "lost" ? "ok" : "timeout");
        expect(await outcome(list(api))).toBe("ok");
      });
    });
  }

  for (const version of ["25.04", "25.10", "26.0"] as const) {
    test(`${version}: of methods that hang on the server leaves a working connection for other calls`, async () => {
      await withApi(version, async (api, double) => {
        double.faults.silence(/pool\.dataset\.create/, "hung", 20);
        const hung = Array.from({ length: 20 }, (_, n) => outcome(make(api, `tank/hung${n}`)));
        for (let n = 0; n < 3; n++) expect(await outcome(list(api))).toBe("ok");
        expect(await Promise.all(hung)).toEqual(hung.map(() => "lost"));
        expect(await outcome(make(api, "tank/b"))).toBe("ok");
        await closed(double);
      });
    });

    test(`${version}: a slow call is answered, although new calls use another connection`, async () => {
      await withApi(
        version,
        async (api, double) => {
          await list(api);
          double.faults.slowMs = 2 * limits.lateMs;
          double.faults.silence(/pool\.dataset\.create/, "slow", 1);
          expect(await outcome(make(api, "tank/slow"))).toBe("ok");
          expect(await outcome(list(api))).toBe("ok");
          expect(double.sockets).toBe(2);
          await closed(double);
        },
        { ...limits, answerMs: 20_000 },
      );
    });

    test(`${version}: an answer after the time limit is not used for another call`, async () => {
      const patient = { ...limits, answerMs: 20_000, lateMs: 20_000 };
      const work = async (api: Api, double: Double) => {
        await make(api, "tank/a");
        let held: string | undefined;
        double.deliver = ({ text, status }) => {
          if (/"result":\{"id":"tank\/b"/.test(text)) return { texts: [held ?? "", text] };
          if (held !== undefined || status !== undefined) return undefined;
          held = text;
          return { texts: [] };
        };
        double.faults.silence(/pool\.dataset\.create/, "slow", 1);
        const lost = outcome(api.call("pool.dataset.query", [[], {}], AbortSignal.timeout(100)));
        const slow = make(api, "tank/b");
        expect(await slow).toMatchObject({ id: "tank/b" });
        expect(await lost).toBe("cancelled");
      };
      await withApi(version, work, patient);
    });

    test(`${version}: an answer that is not JSON ends the connection with that reason, and the next call works`, async () => {
      await withApi(version, async (api, double) => {
        await make(api, "tank/a");
        double.faults.silence(/pool\.dataset\.create/, "garbled", 1);
        const said = make(api, "tank/b").catch((error: Error) => error.message);
        expect(await said).toContain("did not send a JSON object");
        expect(await outcome(make(api, "tank/c"))).toBe("ok");
      });
    });
  }

  test("the time limits of a real system are one minute for an answer and ten for a job", () => {
    expect(usualLimits).toMatchObject({ answerMs: 60_000, jobMs: 600_000 });
  });
});
