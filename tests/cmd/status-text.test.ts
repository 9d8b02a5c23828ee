import { describe, expect, test } from "bun:test";
import { statusOptions } from "../../cmd/status/options.ts";
import { age, size, statusText } from "../../cmd/status/text.ts";
import { UsageError } from "../../cmd/terminal/usage-error.ts";
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
      places: ["zone=a", "zone=b"],
      inUse: 1,
      lastSuccess: { method: "CreateVolume", at: at(50) },
      lastFailure: { method: "DeleteVolume", at: at(60), code: "unavailable", message: "no \u001b[31mroute" },
    },
    {
      ...{ name: "dead", state: "good", since: at(0), driver: "nfs-client", suspended: false, places: [], inUse: 0 },
      outage: { since: at(80), next: at(112), reason: "no route" },
      storage: { state: "unreachable", at: at(80), reason: "no route" },
    },
    { name: "old", state: "gone", since: at(90), suspended: false, places: [], inUse: 0 },
  ],
  groups: [{ name: "pool", policy: "spread", members: ["nas", "old", "new", "dead"] }],
  calls: [{ method: "DeleteVolume", connection: "nas", object: "v:nas/a", since: at(70) }],
  jobs: [],
};

test("people see states, the last failure since which nothing succeeded, groups and calls", () => {
  expect(statusText(status, false)).toBe(`c.example: csimux 1, controller, up for 100s

CONNECTION  STATE            SINCE  DRIVER      FREE  VOLUMES  CALLS  LAST OK  PLACES
nas         good, suspended  60s    nfs-client  -     -        1      50s      zone=a or zone=b
dead        unreachable      100s   nfs-client  -     -        0      -        everywhere
old         gone             10s    -           -     -        0      -        -

GROUP  POLICY  MEMBERS
pool   spread  nas (suspended), old (no file), new (no file), dead (unavailable)

nas: DeleteVolume 40s ago: unavailable: no \\u001b[31mroute
dead: unavailable for 20s, asked again in 12s; until then calls are refused: no route
old: its file was removed; its volumes wait until it is back

IN PROGRESS   CONNECTION  OBJECT   FOR
DeleteVolume  nas         v:nas/a  30s
`);
});

test("a failure that was followed by a success is no problem any more", () => {
  const [nas] = status.connections;
  if (!nas) throw new Error("the status has a connection");
  const later = { ...nas, lastSuccess: { method: "DeleteVolume", at: at(70) } };
  expect(statusText({ ...status, connections: [later] }, false)).not.toContain("no route");
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

  test.each([{ output: "yaml" }, { timeout: "0" }, { timeout: "soon" }, { watch: "-1" }, { statusSocket: "" }])(
    "%j are refused",
    bad => expect(() => statusOptions({ ...flags, ...bad }, {})).toThrow(UsageError),
  );
});
