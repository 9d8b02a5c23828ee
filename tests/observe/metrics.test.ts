import { expect, test } from "bun:test";
import type { RouterView } from "../../lib/mux/overview.ts";
import { CallTracker } from "../../lib/observe/call-tracker.ts";
import { openMetrics } from "../../lib/observe/metrics.ts";
import { servePages } from "../../lib/observe/page-server.ts";
import { statusOf } from "../../lib/observe/status.ts";
import { testCall } from "../fakes/memory-driver.ts";

const { log } = testCall();
const facts = {
  name: "c.example",
  version: "1.2.3",
  commit: "abc",
  modes: ["controller"],
  node: undefined,
  started: 0,
};
const connection = {
  name: "nas",
  state: "degraded",
  since: 5_000,
  problem: "nas.yaml:1:1: no",
  driver: "nfs-client",
  suspended: false,
  accessibleTopology: [],
  inUse: 2,
  free: { value: 1n << 40n, at: 9_000 },
  volumes: undefined,
  outage: { since: 6_000, nextInMs: 5_000, reason: "no route" },
  health: {
    conditions: [{ reason: "PoolDegraded", message: "a disk", ms: 1 }],
    volumes: ["v:nas/a", "v:nas/b"].map(volume => ({
      volume,
      conditions: [{ reason: "QuotaFull" as const, message: "full", ms: 1 }],
    })),
    storage: { state: "unreachable", at: 7_000, since: 7_000, reason: "no answer" },
  },
} as const;
const status = (connections: readonly (typeof connection)[]) =>
  statusOf(facts, { mux: { connections, groups: [], jobs: [{ what: "create nas/a", since: 1 }] } }, new CallTracker());

/** Samples of the page by name and labels. */
const samples = (page: string): ReadonlyMap<string, number> =>
  new Map(
    page
      .split("\n")
      .filter(line => line !== "" && !line.startsWith("#"))
      .map(line => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1))]),
  );

test("calls and commands are counted with their durations", async () => {
  const metrics = openMetrics(() => 0);
  const end = { connection: "nas", code: "unavailable", message: "no", seconds: 0.3 } as const;
  for (let i = 0; i < 2; i++) metrics.calls({ method: "DeleteVolume", connection: "nas", object: "v" })(end);
  metrics.commands({ where: "ssh root@nas", program: "zfs", outcome: "ok", seconds: 3 });
  const page = await metrics.text(status([]));
  expect(page.trimEnd().endsWith("# EOF")).toBe(true);
  const found = samples(page);
  expect(found.get('csimux_calls_total{method="DeleteVolume",connection="nas",code="unavailable"}')).toBe(2);
  const bucket = (le: string) =>
    found.get(`csimux_call_duration_seconds_bucket{le="${le}",method="DeleteVolume",connection="nas"}`);
  expect([bucket("0.1"), bucket("0.5")]).toEqual([0, 2]);
  const commands = 'csimux_command_duration_seconds_sum{where="ssh root@nas",program="zfs",outcome="ok"}';
  expect(found.get(commands)).toBe(3);
});

test("each connection has its state and figures, and nothing stays behind when it has gone", async () => {
  const metrics = openMetrics(() => 0);
  const found = samples(await metrics.text(status([connection])));
  expect(found.get('csimux_connection_state{connection="nas",state="degraded"}')).toBe(1);
  expect(found.get('csimux_connection_state{connection="nas",state="good"}')).toBe(0);
  const of = (reason: string, subject: string) =>
    found.get(
      `csimux_health_conditions{seen_by="controller",of="${subject}",connection="nas",storage="",reason="${reason}",severity="degraded"}`,
    );
  expect([of("PoolDegraded", "storage"), of("QuotaFull", "volume")]).toEqual([1, 2]);
  expect(found.get('csimux_connection_health_unknown{connection="nas"}')).toBe(1);
  expect(found.get('csimux_connection_unavailable{connection="nas"}')).toBe(1);
  expect(found.get('csimux_connection_state_since_timestamp_seconds{connection="nas"}')).toBe(5);
  expect(found.get('csimux_connection_free_bytes{connection="nas"}')).toBe(2 ** 40);
  expect(found.has('csimux_connection_volumes{connection="nas"}')).toBe(false);
  expect(found.get('csimux_connection_calls_in_progress{connection="nas"}')).toBe(2);
  expect(found.get("csimux_jobs_running")).toBe(1);
  expect(await metrics.text(status([]))).not.toContain('"nas"');
});

test("copies between connections are counted by their ends, and only those that tell of bytes stand still", async () => {
  const one = { target: "v:b/x", from: "a", to: "b", state: "copying", done: 1, total: 9, perSecond: 1 };
  const running = [
    { ...one, method: "zfs-send", stalled: false },
    { ...one, method: "zfs-send", stalled: true, state: "failing", fault: "no route" },
    { ...one, method: "rsync", stalled: false, state: "waiting", ahead: 2 },
    { ...one, method: "restore", stalled: undefined },
  ] as const;
  const copied = [{ from: "a", to: "b", method: "zfs-send", bytes: 2 ** 40 }] as const;
  const empty = { connections: [], groups: [], jobs: [] };
  const page = (copies: typeof empty & { copies: object }) =>
    metrics.text(statusOf(facts, { mux: copies as RouterView }, new CallTracker()));
  const metrics = openMetrics(() => 0);
  for (let scrape = 0; scrape < 2; scrape++) {
    const found = samples(await page({ ...empty, copies: { running, copied } }));
    const of = (name: string, method: string, more = "") =>
      found.get(`${name}{from="a",to="b",method="${method}"${more}}`);
    expect(["copying", "failing"].map(each => of("csimux_copies", "zfs-send", `,state="${each}"`))).toEqual([1, 1]);
    expect(of("csimux_copies", "rsync", ',state="waiting"')).toBe(1);
    expect(["zfs-send", "rsync", "restore"].map(method => of("csimux_copy_stalled", method))).toEqual([
      1,
      0,
      undefined,
    ]);
    expect(of("csimux_copy_bytes_total", "zfs-send")).toBe(2 ** 40);
  }
  const later = await page({ ...empty, copies: { running: [], copied } });
  expect(later).not.toContain("csimux_copies{");
  expect(later).toContain("csimux_copy_bytes_total{");
});

test("the page is served at /metrics and nothing is served anywhere else", async () => {
  const pages = { "/metrics": async () => ({ status: 200, contentType: "text/x", text: "page\n" }) };
  const server = await servePages("metrics", { host: "127.0.0.1", port: 0 }, pages, log);
  try {
    const at = (path: string, init?: RequestInit) => fetch(`http://127.0.0.1:${server.port}${path}`, init);
    const answer = await at("/metrics?x=y");
    expect([answer.status, answer.headers.get("content-type"), await answer.text()]).toEqual([200, "text/x", "page\n"]);
    expect((await at("/")).status).toBe(404);
    expect((await at("/metrics", { method: "POST", body: "x" })).status).toBe(404);
    const again = servePages("metrics", { host: "127.0.0.1", port: server.port }, pages, log);
    await expect(again).rejects.toThrow("EADDRINUSE");
  } finally {
    server.close();
  }
});
