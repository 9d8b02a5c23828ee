import { expect, test } from "bun:test";
import { type PathStates, pathFindings } from "../../lib/node/health/findings.ts";

test.each<[string, Omit<PathStates, "target">, readonly string[]]>([
  ["all paths up is healthy", { up: 2, wanted: 2, disks: 2, running: 2 }, []],
  ["one disk for all paths is healthy", { up: 2, wanted: 2, disks: 1, running: 1 }, []],
  ["a path that is down is lost", { up: 1, wanted: 2, disks: 2, running: 2 }, ["PathsLost"]],
  [
    "a path that is down is lost with one disk for all paths, too",
    { up: 1, wanted: 2, disks: 1, running: 1 },
    ["PathsLost"],
  ],
  ["a disk out of service is a lost path", { up: 2, wanted: 2, disks: 2, running: 1 }, ["PathsLost"]],
  ["no path up means that the session is down", { up: 0, wanted: 1, disks: 1, running: 0 }, ["SessionDown"]],
  ["nothing at all is a device gone, too", { up: 0, wanted: 1, disks: 0, running: 0 }, ["DeviceGone", "SessionDown"]],
  ["a target without a disk means that the device is gone", { up: 1, wanted: 1, disks: 0, running: 0 }, ["DeviceGone"]],
  ["disks that are all out of service do not answer", { up: 1, wanted: 1, disks: 1, running: 0 }, ["NotAnswering"]],
])("%s", (_, paths, expected) => {
  expect(pathFindings({ target: "iqn.2024-01.org.example:a", ...paths }).map(({ reason }) => reason)).toEqual([
    ...expected,
  ] as never);
});
