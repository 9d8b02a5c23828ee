import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { goesWithContainer, stateFolder } from "../../cmd/serve/node.ts";
import { parseMountinfo } from "../../lib/core/mountinfo.ts";

const overlay = "1 0 0:40 / / rw - overlay overlay rw";
const plugin = "2 1 8:1 /opt/nomad/client/csi/node/csimux /local/csi rw shared:1 - ext4 /dev/sda1 rw";
const container = parseMountinfo(`${overlay}\n${plugin}\n`);
const host = parseMountinfo("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
const nomad = { env: { NOMAD_ALLOC_ID: "1f2e" } };
const options = { stateDir: undefined, name: "csimux.example" };
const usual = "/var/lib/csimux/csimux.example";

describe.skipIf(existsSync("/host"))("the folder of a node's records", () => {
  test.each([
    ["in a container of Nomad, where the client's folder is mounted", nomad, container, "/local/csi/.csimux"],
    ["in a container of Nomad with another stage_publish_base_dir", nomad, parseMountinfo(`${overlay}\n`), usual],
    ["for a task of Nomad on the host", nomad, host, usual],
    ["in a container of Kubernetes", { env: {} }, container, usual],
  ])("%s", (_, at, mounts, folder) => {
    expect(stateFolder(options, at, () => mounts)).toBe(folder);
    expect(stateFolder({ ...options, stateDir: "/given" }, at, () => mounts)).toBe("/given");
  });
});

test("a task of Nomad is warned of records that go with its container", () => {
  expect(goesWithContainer(usual, nomad, () => container)).toBe(true);
  expect(goesWithContainer("/local/csi/.csimux", nomad, () => container)).toBe(false);
  expect(goesWithContainer(usual, nomad, () => host)).toBe(false);
  expect(goesWithContainer(usual, { env: {} }, () => container)).toBe(false);
});
