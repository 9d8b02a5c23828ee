import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Status } from "../../lib/observe/status.ts";
import { askStatus, statusSocketOf } from "../../lib/observe/status-socket.ts";
import { build } from "../../scripts/build.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox } from "../../scripts/sandbox.ts";
import { spawned } from "../../scripts/spawned.ts";
import { colour, timeline } from "../dashboard.ts";
import { type Double, startDouble } from "../fakes/truenas/double.ts";
import { type FakeZfs, fakeZfs } from "../fakes/zfs/pools.ts";
import { makeAuthority, makeServer } from "../io/certificates.ts";
import { type Sshd, startSshd } from "../io/ssh/sshd.ts";
import { pause } from "../waiting.ts";
import { Door } from "./door.ts";
import { hasPrometheus, Prometheus } from "./prometheus.ts";
import { World } from "./world.ts";

// The executable, a TrueNAS over TLS and a real sshd, each connection through a door of its own, and a Prometheus. What is wrong with
// each storage must be the same wherever a person looks, and so when all are back.

const password = "it's $ecret";
const fails = { dead: "unreachable", login: "login-refused", pool: "unusable" } as const;
const words = { dead: "cannot be reached", login: "refuses the login", pool: "cannot be used" } as const;

/** A storage, what happens to it, and how it is repaired; `kind` is how it is then. */
interface Situation {
  readonly kind: keyof typeof fails;
  readonly storage: "nas" | "host";
  /** The door at the start. */
  readonly atStart: "open" | "shut";
  /** What is wrong in the file, which is right once the storage is repaired. */
  readonly wrong?: { readonly secret?: string; readonly pool?: string };
  readonly later?: (door: Door) => Promise<void> | void;
}

const situations: Readonly<Record<string, Situation>> = {
  "nas-dead-at-start": { kind: "dead", storage: "nas", atStart: "shut" },
  "nas-dies-later": { kind: "dead", storage: "nas", atStart: "open", later: door => door.shut() },
  "nas-hangs": { kind: "dead", storage: "nas", atStart: "open", later: door => door.hush() },
  "nas-refuses-login": { kind: "login", storage: "nas", atStart: "open", wrong: { secret: "2-not-the-key" } },
  "nas-wrong-pool": { kind: "pool", storage: "nas", atStart: "open", wrong: { pool: "nopool" } },
  "host-dies-later": { kind: "dead", storage: "host", atStart: "open", later: door => door.shut() },
  "host-refuses-login": { kind: "login", storage: "host", atStart: "open", wrong: { secret: "another password" } },
  "host-wrong-pool": { kind: "pool", storage: "host", atStart: "open", wrong: { pool: "nopool" } },
};
const names = Object.keys(situations).sort();
const table = names.map(name => [name, situations[name]?.kind ?? "dead"] as const);

let folder = "";
let nas: Double;
let zfs: FakeZfs;
let sshd: Sshd;
let world: World;
let prometheus: Prometheus | undefined;
const doors = new Map<string, Door>();

/** The connection file of a situation; `isMended`: with nothing wrong in it. */
function fileOf(name: string, isMended: boolean): string {
  const { storage, wrong = {} } = situations[name] as Situation;
  const { secret, pool = "tank" } = isMended ? {} : wrong;
  const datasets = {
    datasetParentName: `${pool}/${name}/v`,
    detachedSnapshotsDatasetParentName: `${pool}/${name}/s`,
    datasetEnableQuotas: true,
  };
  const port = doors.get(name)?.port ?? 0;
  const nfs = { shareHost: "127.0.0.1" };
  const properties = { sharenfs: "rw" };
  return JSON.stringify(
    storage === "nas"
      ? {
          driver: "truenas-api-nfs",
          httpConnection: {
            ...{ protocol: "https", host: "127.0.0.1", port, apiKey: secret ?? "1-secret" },
            caFile: join(folder, "authority.crt"),
          },
          zfs: datasets,
          nfs,
        }
      : {
          driver: "zfs-generic-nfs",
          sshConnection: {
            host: "127.0.0.1",
            port,
            username: "root",
            password: secret ?? password,
            hostKey: sshd.hostKey,
          },
          zfs: datasets,
          nfs: {
            ...nfs,
            shareStrategy: "setDatasetProperties",
            shareStrategySetDatasetProperties: { properties },
          },
        },
  );
}

async function asked(...args: readonly string[]) {
  const { stdout, code } = await spawned([await build(), "status", "--endpoint", world.sandbox.socket, ...args]);
  return { stdout, code };
}

/** Waits until `look` answers something; two minutes at most. */
async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  const end = Date.now() + 120_000;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (Date.now() > end) throw new Error(`not in time: ${what}\n${(await asked()).stdout}`);
    await pause(250);
  }
}

/** Waits until every storage is in the state that `wanted` gives. */
const untilAll = (wanted: (name: string) => string) =>
  until("the states of the storages", async () => {
    const { stdout, code } = await asked("--output", "json");
    if (stdout === "") return undefined;
    const { connections } = JSON.parse(stdout) as Status;
    const isSo = names.every(each => connections.find(({ name }) => name === each)?.storage?.state === wanted(each));
    return isSo ? { connections, code } : undefined;
  });

/** Waits until assertions hold: on a machine under load a single check may come late. */
async function eventually(assertions: () => Promise<void>): Promise<void> {
  for (const end = Date.now() + 60_000; ; ) {
    try {
      return await assertions();
    } catch (error) {
      if (Date.now() > end) throw error;
      await pause(250);
    }
  }
}

const metricsPort = () =>
  until(
    "the address of the metrics",
    async () =>
      (await askStatus(statusSocketOf(world.sandbox.socket), 5_000).catch(() => undefined))?.details.metrics?.port,
  );

/** The values of a metric by connection. */
async function metric(name: string, labels = ""): Promise<Readonly<Record<string, number>>> {
  const port = await metricsPort();
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const lines = page.matchAll(new RegExp(`^${name}\\{connection="([^"]*)"${labels}\\} (\\S+)$`, "gm"));
  return Object.fromEntries([...lines].map(([, connection = "", value]) => [connection, Number(value)]));
}

/** How often the log has a line about a connection's storage with these words. */
const logged = async (name: string, what: string): Promise<number> =>
  (await world.daemon.log()).split(`"connection \\"${name}\\": its storage ${what}"`).length - 1;

const all = <T>(value: T) => Object.fromEntries(names.map(name => [name, value]));

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "csimux-situations-"));
  makeAuthority(folder, "authority");
  const { cert, key } = makeServer(folder, "authority");
  nas = await startDouble({
    version: "25.10",
    tls: { cert: await readFile(cert, "utf8"), key: await readFile(key, "utf8") },
  });
  zfs = await fakeZfs();
  sshd = await startSshd({ password, env: { PATH: `${zfs.bin}:/usr/bin:/bin` } });
  for (const name of names) {
    const door = await new Door(situations[name]?.storage === "nas" ? nas.port : sshd.port).open();
    doors.set(name, door);
    if (situations[name]?.atStart === "shut") await door.shut();
  }
  const sandbox = await makeSandbox("off", []);
  for (const name of names) await writeFile(join(sandbox.connections, `${name}.yaml`), fileOf(name, false));
  const flags = ["--health-interval=2", "--metrics-address=127.0.0.1:0"];
  world = await World.on(sandbox, async () => startDaemon({ command: [await build()], sandbox, flags }));
  if (hasPrometheus) prometheus = await Prometheus.start(folder, `127.0.0.1:${await metricsPort()}`);
  await untilAll(name => {
    const { kind, later } = situations[name] as Situation;
    return later ? "good" : fails[kind];
  });
  for (const name of names) await situations[name]?.later?.(doors.get(name) as Door);
}, 240_000);

afterAll(async () => {
  prometheus?.stop();
  const left = await world.end();
  for (const door of doors.values()) await door.shut();
  await sshd.stop();
  await zfs.close();
  await nas.close();
  await rm(folder, { recursive: true, force: true });
  expect(left).toEqual([]);
}, 120_000);

describe("while something is wrong with every storage", () => {
  let code: number | undefined;
  beforeAll(async () => {
    code = (await untilAll(name => fails[situations[name]?.kind ?? "dead"])).code;
  }, 240_000);

  test("status ends with 1, as text and as JSON", async () => {
    expect([code, (await asked()).code]).toEqual([1, 1]);
  }, 120_000);

  test.each(table)(
    "%s is reported in the log and in the text of status",
    async (name, kind) => {
      await eventually(async () => {
        expect(await logged(name, words[kind])).toBeGreaterThan(0);
        const { stdout } = await asked();
        expect(stdout).toMatch(new RegExp(`^${name} +${fails[kind]} `, "m"));
        expect(stdout).toMatch(new RegExp(`^${name}: `, "m"));
      });
    },
    120_000,
  );

  test(
    "the metrics report each",
    () =>
      eventually(async () => {
        expect(await metric("csimux_connection_health_unknown")).toEqual(all(1));
        expect(await metric("csimux_connection_state", ',state="good"')).toEqual(all(1));
      }),
    120_000,
  );

  test.skipIf(!hasPrometheus)(
    "Prometheus fires the alert of each",
    () =>
      eventually(async () => {
        const alerts = await prometheus?.firing();
        expect(alerts?.["CsimuxStorageHealthUnknown"]).toEqual(names);
        const quiet = /OutOfService|ConnectionDegraded|Down|ControllerAbsent/;
        expect(Object.keys(alerts ?? {}).filter(name => quiet.test(name))).toEqual([]);
      }),
    120_000,
  );

  test.skipIf(!hasPrometheus)(
    "the queries of the dashboard give values that are not green",
    () =>
      eventually(async () => {
        expect(await prometheus?.valuesOf("Storages unavailable")).toEqual([names.length]);
        expect(colour("Storages unavailable", names.length)).toBe("red");
        const states = (await prometheus?.valuesOf(timeline)) ?? [];
        expect(states).toHaveLength(names.length);
        for (const value of states) expect(["orange", "red"]).toContain(colour(timeline, value) ?? "");
        expect(await prometheus?.valuesOf("Connections out of service")).toEqual([0]);
        expect(await prometheus?.valuesOf("Controllers")).toEqual([1]);
      }),
    120_000,
  );
});

describe("when every storage is back", () => {
  beforeAll(async () => {
    for (const name of names) {
      await doors.get(name)?.open();
      if (situations[name]?.wrong) await writeFile(join(world.sandbox.connections, `${name}.yaml`), fileOf(name, true));
    }
    await untilAll(() => "good");
  }, 240_000);

  test(
    "status ends with 0, as text and as JSON",
    () =>
      eventually(async () => {
        expect([(await asked()).code, (await asked("--output", "json")).code]).toEqual([0, 0]);
      }),
    120_000,
  );

  test.each(table)(
    "%s is reported as good in the log and in the text of status",
    name =>
      eventually(async () => {
        expect(await logged(name, "can be used again")).toBeGreaterThan(0);
        expect((await asked()).stdout).toMatch(new RegExp(`^${name} +good `, "m"));
      }),
    120_000,
  );

  test(
    "the metrics report each as good",
    () =>
      eventually(async () => {
        expect(await metric("csimux_connection_health_unknown")).toEqual(all(0));
        expect(await metric("csimux_connection_unavailable")).toEqual(all(0));
      }),
    120_000,
  );

  test.skipIf(!hasPrometheus)(
    "Prometheus fires no alert, and the dashboard is green",
    () =>
      eventually(async () => {
        expect(Object.keys((await prometheus?.firing()) ?? { unanswered: [] })).toEqual([]);
        expect(await prometheus?.valuesOf("Storages unavailable")).toEqual([0]);
        expect(colour("Storages unavailable", 0)).toBe("green");
        const states = (await prometheus?.valuesOf(timeline)) ?? [];
        expect(states).toHaveLength(names.length);
        for (const value of states) expect(colour(timeline, value)).toBe("green");
      }),
    120_000,
  );
});
