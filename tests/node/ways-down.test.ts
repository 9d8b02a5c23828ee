import { expect, test } from "bun:test";
import { type PathStates, pathFindings } from "../../lib/node/health/path-findings.ts";

test.each<[string, Omit<PathStates, "target">, readonly string[]]>([
  ["all ways up is well", { up: 2, wanted: 2, disks: 2, running: 2 }, []],
  ["one disk for all ways is well", { up: 2, wanted: 2, disks: 1, running: 1 }, []],
  ["a way that is down is lost", { up: 1, wanted: 2, disks: 2, running: 2 }, ["PathsLost"]],
  ["a disk of a way that is out of service is a way lost", { up: 2, wanted: 2, disks: 2, running: 1 }, ["PathsLost"]],
  ["no way up is a session down", { up: 0, wanted: 1, disks: 1, running: 0 }, ["SessionDown"]],
  ["nothing at all is a device gone, too", { up: 0, wanted: 1, disks: 0, running: 0 }, ["DeviceGone", "SessionDown"]],
  ["a target that shows no disk is a device gone", { up: 1, wanted: 1, disks: 0, running: 0 }, ["DeviceGone"]],
  ["disks that are all out of service do not answer", { up: 1, wanted: 1, disks: 1, running: 0 }, ["NotAnswering"]],
])("%s", (_, ways, expected) => {
  expect(pathFindings({ target: "iqn.2024-01.org.example:a", ...ways }).map(({ reason }) => reason)).toEqual([
    ...expected,
  ] as never);
});
