import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "../../scripts/build.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox } from "../../scripts/sandbox.ts";
import { World } from "../serve/world.ts";
import { pause } from "../waiting.ts";

const token = "a-token-of-the-test-0123456789";
const nas = `driver: freenas-api-nfs
httpConnection: { protocol: https, host: 127.0.0.1, port: 1, apiKey: 1-very-secret-key, allowInsecure: true }
zfs: { datasetParentName: tank/v, detachedSnapshotsDatasetParentName: tank/s }
nfs: { shareHost: 10.0.0.1, shareAllowedNetworks: [10.0.0.0/24] }
`;

/** A csimux with two connections that work and a dead one, and a page at an address that the system chooses. */
async function started(flags: (folder: string) => readonly string[]): Promise<World> {
  const sandbox = await makeSandbox("group");
  await mkdir(join(sandbox.folder, "more"));
  await writeFile(join(sandbox.folder, "more", "token"), `${token}\n`);
  await writeFile(join(sandbox.connections, "nas.yaml"), nas);
  return World.on(sandbox, async () =>
    startDaemon({ command: [await build()], sandbox, flags: flags(join(sandbox.folder, "more")) }),
  );
}

async function portOf(world: World): Promise<number> {
  const limit = Date.now() + 60_000;
  for (;;) {
    const found = /"serving the status page","address":"[^"]*:(\d+)"/.exec(await world.daemon.log())?.[1];
    if (found !== undefined) return Number(found);
    if (Date.now() > limit) throw new Error("no page is served");
    await pause(20);
  }
}

test("the page needs its token, shows every connection, also a dead one, and no secret; status --html writes the same", async () => {
  const world = await started(folder => ["--page-address", ":0", "--page-token-file", join(folder, "token")]);
  try {
    const { volume } = await world.create("pvc-1", "one");
    const at = `http://127.0.0.1:${await portOf(world)}`;
    const get = (path: string, authorization = `Bearer ${token}`) => fetch(at + path, { headers: { authorization } });
    expect((await get("/", "")).status).toBe(401);
    expect((await get("/", "Bearer wrong")).status).toBe(401);
    expect([(await get("/csimux")).status, (await fetch(at, { method: "POST" })).status]).toEqual([404, 404]);
    const answer = await get("/");
    const text = await answer.text();
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-security-policy")).toMatch(/^default-src 'none'; .*frame-ancestors 'none'$/);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(text).toContain(volume?.volumeId ?? "");
    expect(text).toContain("cannot check the storage: https://127.0.0.1:1: connect ECONNREFUSED");
    expect(text).not.toMatch(/very-secret|a-token-of/);
    const file = join(world.sandbox.folder, "more", "page.html");
    const cluster = join(world.sandbox.folder, "more", "cluster.json");
    const node = { kind: "Node", metadata: { name: "node-of-list", labels: {} } };
    await writeFile(cluster, JSON.stringify({ kind: "List", items: [node] }));
    const words = ["status", "--endpoint", world.sandbox.socket, "--html", file, "--cluster", cluster];
    const { status, stderr } = spawnSync(await build(), words, { timeout: 90_000, encoding: "utf8" });
    expect([status, stderr]).toEqual([1, ""]);
    const written = await readFile(file, "utf8");
    expect(written).toContain(volume?.volumeId ?? "");
    expect(written).toContain("node-of-list");
    expect(written).not.toMatch(/very-secret|a-token-of/);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await world.daemon.log()).not.toMatch(/very-secret|a-token-of/);
  } finally {
    expect(await world.end()).toEqual([]);
  }
}, 180_000);

test("an address that other machines reach needs a token; on the loopback, other host names are refused", async () => {
  const refused = spawnSync(await build(), ["serve", "--config", "/nonexistent", "--page-address", ":0"], {
    encoding: "utf8",
  });
  expect([refused.status, refused.stderr]).toEqual([2, expect.stringContaining("give --page-token-file")]);
  const world = await started(() => ["--page-address", "127.0.0.1:0"]);
  try {
    const port = await portOf(world);
    const get = (host: string) => fetch(`http://127.0.0.1:${port}/`, { headers: { host } });
    expect([(await get("localhost:1")).status, (await get("evil.example")).status]).toEqual([200, 403]);
  } finally {
    expect(await world.end()).toEqual([]);
  }
}, 180_000);
