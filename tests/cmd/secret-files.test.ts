import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { valueResolver } from "../../cmd/host.ts";
import { noDefaults } from "../../lib/config/proxy.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { opener } from "../../lib/daemon/opener.ts";
import type { DriverPorts } from "../../lib/drivers/module.ts";
import { Connections } from "../../lib/mux/connections.ts";
import { StorageCalls } from "../../lib/mux/storage-calls.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { Door } from "../serve/door.ts";

const { log } = testCall();
let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "csimux-secrets-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** A connection over ssh whose password is in a file, and the passwords with which its driver was opened. */
function world(host = "nas", port = 22) {
  const file = join(folder, "password");
  const text = `driver: zfs-generic-nfs
sshConnection: { host: ${host}, port: ${port}, username: root, passwordFile: ${file} }
zfs: { datasetParentName: tank/v, detachedSnapshotsDatasetParentName: tank/s }
nfs: { shareHost: nas, shareStrategy: setDatasetProperties, shareStrategySetDatasetProperties: { properties: { sharenfs: "on" } } }
`;
  const given: string[] = [];
  const ssh = (settings: { readonly password?: string | undefined }) => {
    given.push(settings.password ?? "");
    const host = { runner: { where: "nas" }, shared: (_: string, make: () => unknown) => make() };
    return { value: host, release: async () => {} };
  };
  const ports = { ssh } as unknown as DriverPorts;
  const main = () => ({ defaults: noDefaults, single: undefined });
  const options = { main, prefix: "p.example", resolver: valueResolver({}), ports, ownSegments: undefined, log };
  const files = { names: async () => ["nas"], read: async () => text, labels: async () => undefined };
  const connections = new Connections(
    files,
    async () => opener(options),
    () => noDefaults,
    { kind: "forever" },
    log,
  );
  const use = () => connections.use("nas", "retry", async connection => connection);
  return { file, given, connections, use };
}

test("a connection knows the pool and the host whose free space it shares with others", async () => {
  const { file, use } = world();
  await writeFile(file, "password");
  expect((await use()).pool).toBe("tank on nas");
});

test("a connection knows whether the host that it logs in to accepts connections", async () => {
  const door = await new Door(1).open();
  const { file, use } = world("127.0.0.1", door.port);
  await writeFile(file, "password");
  const { answers } = await use();
  const { signal } = new AbortController();
  expect(await answers?.(signal)).toBe(true);
  await door.shut();
  expect(await answers?.(signal)).toBe(false);
});

test("a password file that was changed is read again by the next survey, and only then", async () => {
  const { file, given, connections, use } = world();
  await writeFile(file, "first-password\n");
  await use();
  for (let round = 0; round < 3; round++) await connections.survey();
  expect(given).toEqual(["first-password"]);
  await writeFile(file, "second-password\n");
  await connections.survey();
  await use();
  for (let round = 0; round < 3; round++) await connections.survey();
  expect(given).toEqual(["first-password", "second-password"]);
});

test("a password file that was changed is read again as soon as a login is refused", async () => {
  const { file, given, connections, use } = world();
  const calls = new StorageCalls(connections, { look: 1_000, capacity: 1_000 }, log);
  await writeFile(file, "first-password");
  const connection = await use();
  const refused = new CsiError("unavailable", "root@nas refuses the login", { refused: "login-refused" });
  const call = () => calls.make(connection, () => Promise.reject(refused)).catch(() => {});
  await call();
  await use();
  expect(given).toEqual(["first-password"]);
  await writeFile(file, "second-password");
  await call();
  await use();
  expect(given).toEqual(["first-password", "second-password"]);
});

test("a connection whose password file was missing is opened once the file is there, and keeps its last one while it is away", async () => {
  const { file, given, connections, use } = world();
  await connections.survey();
  expect(await use().catch((error: CsiError) => error.message)).toContain("passwordFile");
  await writeFile(file, "first-password");
  await connections.survey();
  await use();
  await rm(file);
  await connections.survey();
  await use();
  expect(connections.record("nas")?.state).toBe("degraded");
  await writeFile(file, "second-password");
  await connections.survey();
  await use();
  expect(connections.record("nas")?.state).toBe("good");
  expect(given.at(0)).toBe("first-password");
  expect(given.at(-1)).toBe("second-password");
});
