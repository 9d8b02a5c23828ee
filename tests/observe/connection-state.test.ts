import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { Ajv } from "ajv";
import { pageText } from "../../cmd/page/page.ts";
import { isHealthy } from "../../cmd/status/problems.ts";
import { statusText } from "../../cmd/status/text.ts";
import type { RouterView } from "../../lib/mux/overview.ts";
import { CallTracker } from "../../lib/observe/call-tracker.ts";
import { openMetrics } from "../../lib/observe/metrics.ts";
import { statusOf } from "../../lib/observe/status.ts";

type View = RouterView["connections"][number];
type File = Pick<View, "state">["state"];
type Storage = View["health"]["storage"]["state"];

const facts = { name: "c.example", version: "1", commit: "a", modes: ["controller"], node: undefined, started: 0 };
const details = { config: "/c", state: "/s", prefix: "c", metrics: undefined, log: [] };

/** The time of the file's state, of the storage's, and of the outage, in seconds since 1970. */
const [ofFile, ofStorage, ofOutage] = [1_000, 5_000, 4_000];

function statusWith(file: File, storage: Storage, isOut: boolean) {
  const connection: View = {
    ...{ name: "nas", state: file, since: ofFile * 1000, problem: undefined, driver: "nfs-client", suspended: false },
    ...{ accessibleTopology: [], inUse: 0, free: undefined, volumes: undefined },
    outage: isOut ? { since: ofOutage * 1000, nextInMs: 1_000, reason: "no route" } : undefined,
    health: {
      ...{ conditions: [], volumes: [] },
      storage: {
        state: storage,
        at: 6_000_000,
        since: storage === "not-checked" ? undefined : ofStorage * 1000,
        reason: undefined,
      },
    },
  };
  return statusOf(facts, { mux: { connections: [connection], groups: [], jobs: [] } }, new CallTracker());
}

test.each([
  // It is good since both are.
  ["good", "good", false, "good", ofStorage],
  ["good", "not-checked", false, "not-checked", ofFile],
  ["good", "unreachable", false, "unreachable", ofStorage],
  // The calls have noticed before the check.
  ["good", "unreachable", true, "unreachable", ofOutage],
  ["good", "good", true, "unreachable", ofOutage],
  ["good", "login-refused", false, "login-refused", ofStorage],
  ["good", "unusable", false, "unusable", ofStorage],
  ["degraded", "good", false, "degraded", ofFile],
  ["degraded", "not-checked", false, "degraded", ofFile],
  ["degraded", "unreachable", false, "unreachable", ofStorage],
  ["bad", "unreachable", true, "bad", ofFile],
  ["gone", "good", false, "gone", ofFile],
] as const)(
  "a %s file and a storage that is %s, outage: %s, are one state with one name and time everywhere",
  (file, storage, isOut, state, since) => {
    const status = statusWith(file, storage, isOut);
    const time = new Date(since * 1000).toISOString();
    expect(status.connections[0]).toMatchObject({ state, since: time, file: { state: file } });
    const now = new Date((since + 7_200) * 1000).toISOString();
    expect(statusText({ ...status, now }, false)).toMatch(new RegExp(`^nas +${state} +2h`, "m"));
    const page = pageText({ ...status, now, details }, undefined);
    expect(page).toMatch(
      new RegExp(`<th scope="row">nas</th><td[^>]*><span[^>]*><span[^>]*>[^<]*</span> ${state}</span>`),
    );
    expect(page).toMatch(/<td[^>]*>2h<\/td>/);
  },
);

test("an unknown key in a connection file or the main file is shown by status, page and metrics", async () => {
  const [{ connections }, mainProblem] = [statusWith("degraded", "good", false), "proxy.yaml:3:1: unknown key"];
  const defect = "nas.yaml:6:1: unknown key";
  const all = connections.map(each => ({ ...each, defect }));
  const status = { ...statusWith("degraded", "good", false), mainProblem, connections: all, details };
  for (const text of [statusText(status, false), pageText(status, undefined)])
    for (const word of [defect, mainProblem]) expect(text).toContain(word);
  expect(statusText(status, false)).not.toContain("last valid file");
  expect(isHealthy(status)).toBe(false);
  expect(isHealthy({ ...status, connections: [] })).toBe(false);
  const text = await openMetrics(() => 0).text(status);
  expect(text).toMatch(/^csimux_main_file_problem 1$/m);
  expect(text).toMatch(/^csimux_connection_state\{connection="nas",state="degraded"\} 1$/m);
});

test("the JSON of a status is as its schema says", () => {
  const schema = JSON.parse(
    readFileSync(new URL("../../examples/monitoring/status.schema.json", import.meta.url), "utf8"),
  );
  const validate = new Ajv({ strict: true, strictRequired: false, validateFormats: false }).compile(schema);
  for (const file of ["good", "degraded", "bad", "gone"] as const)
    for (const storage of ["good", "not-checked", "unreachable", "login-refused", "unusable"] as const) {
      const status = JSON.parse(JSON.stringify(statusWith(file, storage, storage === "unreachable")));
      expect([validate(status), validate.errors]).toEqual([true, null]);
      expect(validate({ ...status, connections: [{ ...status.connections[0], state: "well" }] })).toBe(false);
    }
});
