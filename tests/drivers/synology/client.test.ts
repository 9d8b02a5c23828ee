import { afterEach, describe, expect, test } from "bun:test";
import { CsiError } from "../../../lib/core/errors.ts";
import { Semaphore } from "../../../lib/core/semaphore.ts";
import { DsmClient, type DsmServer, leasedDsm, serverOf } from "../../../lib/drivers/synology/client.ts";
import { DsmError, explainDsm } from "../../../lib/drivers/synology/dsm-error.ts";
import { callWith, volumeOf } from "../../contract/rig.ts";
import { type Dsm, startDsm } from "../../fakes/dsm/double.ts";
import { configOf, openDsm } from "./dsm-rig.ts";

const never = new AbortController().signal;
const list = { api: "SYNO.Core.ISCSI.LUN", method: "list" };
const doubles: Dsm[] = [];

async function double(version: 6 | 7 = 7): Promise<Dsm> {
  const dsm = await startDsm(version);
  doubles.push(dsm);
  return dsm;
}

afterEach(async () => {
  await Promise.all(doubles.splice(0).map(each => each.close()));
});

const serverFor = (dsm: Dsm, http: object = {}): DsmServer => serverOf(configOf(dsm, { http }).httpConnection);
const clientFor = (dsm: Dsm, http: object = {}, now?: () => number) =>
  new DsmClient(serverFor(dsm, http), new Semaphore(4), undefined, now);

/** What an error means to a caller, with the code first; "ok" when there is none. */
const meaning = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "ok",
    error => {
      const known = explainDsm(error);
      return known ? `${known.code}: ${known.text}` : `not explained: ${error}`;
    },
  );

describe("a session", () => {
  test.each([6, 7] as const)(
    "DSM %d is logged in to once, used for many calls, and logged out of at the end",
    async version => {
      const dsm = await double(version);
      const client = clientFor(dsm);
      await Promise.all(Array.from({ length: 10 }, () => client.call("a", list, never)));
      expect([dsm.count("login"), dsm.count("list"), dsm.sessions.size]).toEqual([1, 10, 1]);
      await client.close();
      expect([dsm.count("logout"), dsm.sessions.size]).toEqual([1, 0]);
    },
  );

  test.each([105, 106, 107, 119])(
    "a session that ends with error %d is renewed once, and the call is repeated",
    async code => {
      const dsm = await double();
      const client = clientFor(dsm);
      await client.call("a", list, never);
      dsm.endSessions(code);
      expect(await client.call("a", list, never)).toEqual({ luns: [] });
      expect([dsm.count("login"), dsm.count("list")]).toEqual([2, 3]);
      await client.close();
    },
  );

  test("a missing permission is reported after exactly one new login", async () => {
    const dsm = await double();
    dsm.denial = 105;
    const client = clientFor(dsm);
    expect(await meaning(client.call("a", list, never))).toStartWith(
      "permission-denied: the account lacks the permission",
    );
    expect([dsm.count("login"), dsm.count("list")]).toEqual([2, 2]);
    await client.close();
  });

  test("only the last of several connections to one system logs out", async () => {
    const dsm = await double();
    const [a, b] = [leasedDsm(serverFor(dsm), "a"), leasedDsm(serverFor(dsm), "b")];
    await Promise.all([a.call(list, never), b.call(list, never)]);
    expect(dsm.count("login")).toBe(1);
    await a.release();
    await a.release();
    expect(dsm.count("logout")).toBe(0);
    await b.release();
    expect([dsm.count("logout"), dsm.sessions.size]).toEqual([1, 0]);
  });
});

describe("a refused login", () => {
  const refusals = [
    [400, "unauthenticated: user name or password are wrong"],
    [402, "permission-denied: the account may not log in"],
    [403, "failed-precondition: the account requires a second factor"],
    [404, "failed-precondition: the account requires a second factor"],
    [406, "failed-precondition: the account requires a second factor"],
    [407, "unavailable: DSM has blocked this address"],
  ] as const;
  test.each(refusals)(
    "with %d is %s, and is not retried for a while, so that DSM does not block the address",
    async (code, text) => {
      const dsm = await double();
      dsm.loginRefusal = code;
      let time = 0;
      const client = clientFor(dsm, {}, () => time);
      for (let n = 0; n < 5; n++) expect(await meaning(client.call("a", list, never))).toStartWith(text);
      expect(dsm.count("login")).toBe(1);
      dsm.loginRefusal = undefined;
      time = 5 * 60_000;
      expect(await meaning(client.call("a", list, never))).toBe("ok");
      await client.close();
    },
  );

  test("the codes of a login do not apply to other APIs", () => {
    expect(explainDsm(new DsmError("SYNO.Core.ISCSI.LUN", "list", 402))?.code).toBe("internal");
  });

  test("an unknown code is reported with its API and method", () => {
    expect(explainDsm(new DsmError("SYNO.Core.ISCSI.LUN", "set", 18990999))).toEqual({
      code: "internal",
      text: "SYNO.Core.ISCSI.LUN set failed with error 18990999",
    });
  });

  const numbers = [
    [18990002, "resource-exhausted"],
    [18990318, "invalid-argument"],
    [18990500, "invalid-argument"],
    [18990531, "not-found"],
    [18990532, "not-found"],
    [18990541, "resource-exhausted"],
    [18990542, "resource-exhausted"],
    [18990543, "resource-exhausted"],
    [18990635, "invalid-argument"],
    [18990708, "invalid-argument"],
  ] as const;
  test.each(numbers)("error %d of SAN Manager is %s", (number, code) => {
    expect(explainDsm(new DsmError("SYNO.Core.ISCSI.Target", "create", number))?.code).toBe(code);
  });
});

describe("requests", () => {
  test("no URL contains the password, the session or CHAP credentials", async () => {
    const dsm = await double();
    const chap = { user: "node", password: "chapsecret12", mutual_user: "nas", mutual_password: "mutualsecret" };
    const driver = openDsm(dsm, { iscsi: { targetTemplate: chap } });
    await driver.create(volumeOf("pvc-1"), callWith());
    await driver.close?.();
    const urls = new Set(dsm.requests.map(({ url }) => url));
    expect([...urls].sort()).toEqual(["/webapi/auth.cgi", "/webapi/entry.cgi"]);
    expect(dsm.requests.some(({ params }) => params["mutual_password"] === "mutualsecret")).toBe(true);
  });

  test("text is quoted, so that names of digits and any characters in descriptions arrive unchanged", async () => {
    const dsm = await double();
    const description = 'a "quoted" & {strange} = 1%2';
    const driver = openDsm(dsm, {
      iscsi: { namePrefix: "", nameSuffix: "", lunTemplate: { type: "BLUN", description } },
    });
    await driver.create(volumeOf("12345"), callWith());
    const [lun] = dsm.state.luns.values();
    expect(lun).toMatchObject({ name: "12345", description: `csimux:c1 | ${description}` });
    await driver.close?.();
  });

  test("at most four calls run at once on one system, and a burst of one connection does not delay another", async () => {
    const dsm = await double();
    dsm.latencyMs = 30;
    const [a, b] = [leasedDsm(serverFor(dsm), "a"), leasedDsm(serverFor(dsm, { username: "other" }), "b")];
    await Promise.all([a.call(list, never), b.call(list, never)]);
    const ended: string[] = [];
    const burst = Array.from({ length: 40 }, () => a.call(list, never).then(() => ended.push("a")));
    const one = b.call(list, never).then(() => ended.push("b"));
    await Promise.all([...burst, one]);
    expect(dsm.most).toBe(4);
    expect(ended.indexOf("b")).toBeLessThan(16);
    await Promise.all([a.release(), b.release()]);
  });

  test("with `serialize` one call runs at a time", async () => {
    const dsm = await double();
    dsm.latencyMs = 5;
    const client = clientFor(dsm, { serialize: true });
    await Promise.all(Array.from({ length: 12 }, () => client.call("a", list, never)));
    expect(dsm.most).toBe(1);
    await client.close();
  });

  test("after a lost answer only a reading call is repeated", async () => {
    const dsm = await double();
    const client = clientFor(dsm);
    await client.call("a", list, never);
    dsm.faults.loseOnce(/LUN list/, "after");
    expect(await meaning(client.call("a", list, never))).toBe("ok");
    dsm.faults.loseOnce(/LUN delete/, "after");
    const gone = { ...list, method: "delete", params: { uuid: "x" } };
    expect(await meaning(client.call("a", gone, never))).toStartWith("unavailable");
    expect(dsm.count("delete")).toBe(1);
    await client.close();
  });
});

describe("an unusable system", () => {
  test("that does not answer is unavailable, and each call ends when its caller gives up", async () => {
    const [dead, alive] = [await double(), await double()];
    dead.frozen = true;
    const [hung, driver] = [openDsm(dead), openDsm(alive)];
    const limit = AbortSignal.timeout(300);
    const waiting = Array.from({ length: 50 }, (_, n) =>
      hung.create(volumeOf(`pvc-${n}`), callWith(limit)).then(
        () => "ok",
        (error: unknown) => (error instanceof CsiError ? error.code : String(error)),
      ),
    );
    expect((await driver.create(volumeOf("pvc-1"), callWith())).id).toBe("pvc-1");
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(["deadline-exceeded"]));
    await driver.close?.();
    await dead.close();
    await hung.close?.();
  });

  test("without a server is unavailable", async () => {
    const dsm = await startDsm();
    const client = clientFor(dsm);
    await dsm.close();
    expect(await meaning(client.call("a", list, never))).toStartWith("unavailable");
    await client.close();
  });

  test("a call that ended before its turn fails, and no login is made for it", async () => {
    const dsm = await double();
    const client = clientFor(dsm);
    const error = await client.call("a", list, AbortSignal.abort()).catch((cause: unknown) => cause);
    expect(error).toMatchObject({ code: "deadline-exceeded" });
    await client.close();
    expect(dsm.requests).toEqual([]);
  });

  const ports = [
    [undefined, undefined, "http", 5000],
    [undefined, 5001, "https", 5001],
    ["https", undefined, "https", 5001],
    ["http", 5001, "http", 5001],
  ] as const;
  test.each(ports)("protocol %p and port %p of a file mean %s and %d", (protocol, port, meant, number) => {
    const rest = { host: "nas", allowInsecure: false, username: "u", password: "p", serialize: false };
    expect(serverOf({ ...rest, protocol, port }).http).toMatchObject({ protocol: meant, port: number });
  });
});
