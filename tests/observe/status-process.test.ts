import { afterAll, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openObservation } from "../../cmd/serve/observation.ts";
import { serveOptions } from "../../cmd/serve/options.ts";
import { leveledLog } from "../../lib/core/log.ts";
import { later } from "../waiting.ts";

const folder = mkdtempSync(join(tmpdir(), "csimux-status-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** An observed process without connections, and what it logs. */
async function observed(flags: object) {
  const lines: string[] = [];
  const options = serveOptions({ config: "proxy.yaml", endpoint: [`unix://${folder}/csi.sock`], ...flags }, {});
  const nothing = { inventory: undefined, staged: undefined };
  const parts = { names: () => ({ has: () => true }), views: () => ({}), prefix: () => "csimux", ...nothing };
  const recent = { recent: () => [], errors: () => 0 };
  const observation = await openObservation(options, folder, () => parts as never, recent, { env: {} });
  await observation.begin(leveledLog("info", line => void lines.push(JSON.stringify(line))));
  return { lines, observation };
}

test("a page that cannot be served, because its port is in use, is a warning and stops nothing", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  const { port } = other.address() as { port: number };
  const { lines, observation } = await observed({ pageAddress: `127.0.0.1:${port}` });
  expect(lines.join("\n")).toMatch(/"level":"warn".*the status page is not available: cannot serve .*EADDRINUSE/s);
  observation.close();
  other.close();
});

test("status --watch ends after its reader", async () => {
  const { observation } = await observed({});
  const argv = ["cmd/csimux.ts", "status", "--watch", "0.1", "--endpoint", `unix://${folder}/csi.sock`];
  const child = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  try {
    await once(child.stdout, "data");
    child.stdout.destroy();
    const [code, signal] = await Promise.race([
      ended,
      // The deadline of the test itself.
      new Promise<[string]>(end => later(() => end(["still running"]), 20_000).unref()),
    ]);
    expect([code, signal]).toEqual([0, null]);
  } finally {
    child.kill("SIGKILL");
    observation.close();
  }
}, 60_000);

test("volumes --timeout is the limit of the whole command on a storage that does not answer", async () => {
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as { port: number };
  const http = { protocol: "http", host: "127.0.0.1", port, username: "root", password: "x" };
  const zfs = { datasetParentName: "tank/v", detachedSnapshotsDatasetParentName: "tank/s" };
  mkdirSync(join(folder, "connections"));
  const file = { driver: "freenas-api-nfs", httpConnection: http, zfs, nfs: { shareHost: "nas.lan" } };
  writeFileSync(join(folder, "connections/nas.yaml"), JSON.stringify(file));
  const main = join(folder, "proxy.yaml");
  writeFileSync(main, JSON.stringify({ driver: "proxy", proxy: { configFolder: join(folder, "connections") } }));
  const begun = performance.now();
  const child = spawn(process.execPath, ["cmd/csimux.ts", "volumes", "--config", main, "--timeout", "1"]);
  try {
    const said: string[] = [];
    for (const stream of [child.stdout, child.stderr]) stream.on("data", chunk => void said.push(String(chunk)));
    await once(child, "close");
    expect(said.join("")).toContain("nas: no answer within 1 s");
    // The login alone may take 10 seconds.
    expect(performance.now() - begun).toBeLessThan(9_000);
  } finally {
    child.kill("SIGKILL");
    silent.close();
  }
}, 60_000);
