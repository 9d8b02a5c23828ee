import { describe, expect, test } from "bun:test";
import { statusOptions } from "../../cmd/status/options.ts";
import { isHealthy } from "../../cmd/status/problems.ts";
import { statusText } from "../../cmd/status/text.ts";
import { UsageError } from "../../cmd/terminal/terminal.ts";
import { age, size } from "../../lib/core/amounts.ts";
import type { Status } from "../../lib/observe/status.ts";

test.each([
  [0, "0 B"],
  [999, "999 B"],
  [1000, "1.0 KiB"],
  [1536, "1.5 KiB"],
  [100 * 1024, "100 KiB"],
  [999.9 * 1024 ** 3, "1.0 TiB"],
  [2 ** 63, "8.0 EiB"],
])("%d bytes are %s", (bytes, text) => expect(size(bytes)).toBe(text));

const at = (seconds: number) => new Date(seconds * 1000).toISOString();
test.each([
  [5, "5s"],
  [119, "119s"],
  [150, "2m"],
  [7200, "2h"],
  [3 * 86_400, "3d"],
  [-5, "0s"],
])("%d seconds ago is %s", (seconds, text) => expect(age(at(0), at(seconds))).toBe(text));

const status: Status = {
  health: [],
  name: "c.example",
  version: "1",
  commit: "x",
  modes: ["controller"],
  started: at(0),
  now: at(100),
  connections: [
    {
      name: "nas",
      state: "good",
      since: at(40),
      driver: "nfs-client",
      suspended: true,
      accessibleTopology: ["zone=a", "zone=b"],
      inUse: 1,
      lastSuccess: { method: "CreateVolume", at: at(50) },
      lastStorageFailure: { method: "DeleteVolume", at: at(60), code: "unavailable", message: "no \u001b[31mroute" },
    },
    {
      ...{
        name: "dead",
        state: "unreachable",
        since: at(80),
        driver: "nfs-client",
        suspended: false,
        accessibleTopology: [],
        inUse: 0,
      },
      // The check found it before the calls did.
      outage: { since: at(85), next: at(112), reason: "no route" },
      storage: { state: "unreachable", at: at(90), since: at(80), reason: "no route" },
    },
    { name: "old", state: "gone", since: at(90), suspended: false, accessibleTopology: [], inUse: 0 },
  ],
  groups: [{ name: "pool", policy: "spread", members: ["nas", "old", "new", "dead"] }],
  calls: [{ method: "DeleteVolume", connection: "nas", object: "v:nas/a", since: at(70) }],
  jobs: [],
};

test("people see states, the last failure since which nothing succeeded, groups and calls", () => {
  expect(statusText(status, false)).toBe(`c.example: csimux 1, controller, up for 100s

3 connections: 1 good, 1 unreachable, 1 gone

CONNECTION  STATE            SINCE  DRIVER      CALLS  LAST OK  PLACES
old         gone             10s    -           0      -        -
dead        unreachable      20s    nfs-client  0      -        everywhere
nas         good, suspended  60s    nfs-client  1      50s      zone=a or zone=b

GROUP  POLICY  MEMBERS
pool   spread  nas (suspended), old (no file), new (no file), dead (unreachable)

old: its file was removed; calls for its volumes fail until it is restored
dead: cannot check the storage: no route (for 20s; calls are refused, next
  check in 12s)
nas: DeleteVolume 40s ago: unavailable: no \\u001b[31mroute

IN PROGRESS   CONNECTION  OBJECT   FOR
DeleteVolume  nas         v:nas/a  30s
`);
});

test("a failure that was followed by a success is not a problem", () => {
  const [nas] = status.connections;
  if (!nas) throw new Error("the status has a connection");
  const later = { ...nas, lastSuccess: { method: "DeleteVolume", at: at(70) } };
  expect(statusText({ ...status, connections: [later] }, false)).not.toContain("no route");
});

const plain = { state: "good", driver: "nfs-client", suspended: false, accessibleTopology: [], inUse: 0 } as const;
const storage = (state: NonNullable<(typeof status.connections)[number]["storage"]>["state"], reason?: string) => ({
  state,
  storage: { state, at: at(90), reason },
});
const shown = (connections: Status["connections"], more: Partial<Status> = {}) => {
  const { groups: _, calls: __, ...rest } = status;
  const all = { ...rest, groups: [], calls: [], connections, ...more };
  return { text: statusText(all, false), well: isHealthy(all) };
};
const reasonOf = (name: string) =>
  `connection "${name}": cannot use the storage: connect to 192.0.2.7:443: no route to host, after 3 tries in 10 s`;

test("of 30 connections the bad ones come first, each cause appears once, and lines of text fit 80 columns", () => {
  const names = Array.from({ length: 30 }, (_, index) => `nas${String(index).padStart(2, "0")}`);
  const all = names.map((name, index) =>
    index % 3 === 0
      ? {
          ...{ ...plain, name, ...storage("unreachable", reasonOf(name)) },
          lastStorageFailure: { method: "CreateVolume", at: at(60), code: "unavailable", message: reasonOf(name) },
        }
      : { ...plain, name, ...storage("good") },
  );
  const { text, well } = shown(all);
  expect(well).toBe(false);
  expect(text).toContain("\n30 connections: 20 good, 10 unreachable\n");
  expect(text.match(/^nas\d+ /gm)?.slice(0, 10)).toEqual(
    names.filter((_, index) => index % 3 === 0).map(each => `${each} `),
  );
  expect(text.match(/no route to host/g)).toHaveLength(10);
  expect(text).toContain("nas03: cannot check the storage: connect to 192.0.2.7:443: no route to host,\n");
  for (const line of text.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
});

test.each([
  ["good", undefined, "good", ""],
  ["not-checked", undefined, "not-checked", "nas: the storage has not been checked yet"],
  ["unreachable", "no route", "unreachable", "nas: cannot check the storage: no route"],
  ["login-refused", "the key is wrong", "login-refused", "nas: the storage refuses the login: the key is wrong"],
  ["unusable", "no pool tank", "unusable", "nas: cannot use the storage: no pool tank"],
] as const)("a storage that is %s is shown as that, and is well only when it is good", (state, reason, word, line) => {
  const { text, well } = shown([{ ...plain, name: "nas", ...storage(state, reason) }]);
  expect(well).toBe(state === "good");
  expect(text).toContain(`1 connection: 1 ${word}\n`);
  expect(text).toContain(line);
});

test("a last call that has failed is not well until a call succeeds", () => {
  const failed = { lastStorageFailure: { method: "CreateVolume", at: at(60), code: "internal", message: "no" } };
  const nas = { ...plain, name: "nas", ...storage("good"), ...failed };
  expect(shown([nas]).well).toBe(false);
  expect(shown([{ ...nas, lastSuccess: { method: "CreateVolume", at: at(61) } }]).well).toBe(true);
});

test("a last call that failed for what its caller asked for leaves a connection well", () => {
  const lastFailure = { method: "CreateVolume", at: at(60), code: "invalid-argument", message: "no such parameter" };
  const { well, text } = shown([{ ...plain, name: "nas", ...storage("good"), lastFailure }]);
  expect([well, text.includes("no such parameter")]).toEqual([true, false]);
});

test("figures have their age; columns that say nothing are left out", () => {
  const nas = { ...plain, name: "nas", ...storage("good"), volumes: { value: 1, at: at(40) } };
  const { text } = shown([nas, { ...nas, name: "new", volumes: undefined }]);
  expect(text).toContain("1 (60s ago)");
  expect(text).not.toContain("FREE");
});

test("an unreadable folder of connections is a problem, not a lack of connections", () => {
  const { text, well } = shown([], { folderProblem: "/connections does not exist" });
  expect([text.includes("No connections"), well]).toEqual([false, false]);
  expect(text).toContain("cannot read the connection files: /connections does not exist\n");
});

test("a long message of a condition is wrapped", () => {
  const condition = {
    seenBy: "controller",
    of: "storage",
    connection: "nas",
    reason: "PoolDegraded",
    severity: "degraded",
    message: "the pool tank lost the disk sdb and runs without redundancy until it is replaced",
    since: at(0),
  } as const;
  const { text } = shown([{ ...plain, name: "nas", ...storage("good") }], { health: [condition] });
  expect(text).toContain("the pool tank lost the disk");
  for (const line of text.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
});

describe("the flags", () => {
  const flags = { output: "text", timeout: "10" };
  test("name the socket, or the endpoint, or what the environment says", () => {
    expect(statusOptions(flags, {}).from).toEqual({ endpoint: "unix:///csi/csi.sock" });
    expect(statusOptions(flags, { CSI_ENDPOINT: "/a" }).from).toEqual({ endpoint: "/a" });
    expect(statusOptions({ ...flags, endpoint: "/b" }, { CSI_ENDPOINT: "/a" }).from).toEqual({ endpoint: "/b" });
    expect(statusOptions({ ...flags, endpoint: "/b", statusSocket: "/c" }, {}).from).toEqual({ socket: "/c" });
    expect(statusOptions({ ...flags, watch: true }, {}).everyMs).toBe(2000);
    expect(statusOptions({ ...flags, watch: "0.5" }, {}).everyMs).toBe(500);
  });

  test.each([{ output: "xml" }, { timeout: "0" }, { timeout: "soon" }, { watch: "-1" }, { statusSocket: "" }])(
    "%j are refused",
    bad => expect(() => statusOptions({ ...flags, ...bad }, {})).toThrow(UsageError),
  );
});

test("copies are shown with their progress, and why they fail", () => {
  const one = {
    from: "nas",
    to: "b",
    method: "zfs-send",
    done: 37 * 2 ** 30,
    total: 120 * 2 ** 30,
    perSecond: 0,
  } as const;
  const copies = [
    { ...one, target: "v:b/one", state: "copying", perSecond: 112 * 2 ** 20, stalled: false },
    { ...one, target: "v:b/two", state: "waiting", done: 0, total: 0, ahead: 3 },
    {
      ...one,
      target: "v:b/three",
      state: "failing",
      method: "rsync",
      total: 0,
      stalled: true,
      fault: "no \u001b[31mroute",
    },
  ] as const;
  const text = statusText({ ...status, copies }, false);
  const section = text.slice(text.indexOf("COPY TO")).split("\n\n")[0] ?? "";
  expect(
    section
      .trimEnd()
      .split("\n")
      .map(line => line.trim().split(/ {2,}/)),
  ).toEqual([
    ["COPY TO", "FROM", "METHOD", "STATE", "COPIED", "RATE"],
    ["v:b/one", "nas", "zfs-send", "copying", "37.0 GiB of 120 GiB", "112 MiB/s"],
    ["v:b/two", "nas", "zfs-send", "waiting (3 ahead)", "-", "-"],
    ["v:b/three", "nas", "rsync", "failing, stalled", "37.0 GiB", "-"],
    ["copy to v:b/three: no \\u001b[31mroute"],
  ]);
  expect(section).not.toContain("\u001b");
  expect(statusText(status, false)).not.toContain("COPY TO");
});
