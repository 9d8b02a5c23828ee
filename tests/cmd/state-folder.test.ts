import { describe, expect, test } from "bun:test";
import { goesWithContainer, stateFolder } from "../../cmd/serve/node.ts";
import { parseMountinfo } from "../../lib/core/mountinfo.ts";

const overlay = "1 0 0:40 / / rw - overlay overlay rw";
const plugin = "2 1 8:1 /opt/nomad/client/csi/node/csimux /local/csi rw shared:1 - ext4 /dev/sda1 rw";
const container = parseMountinfo(`${overlay}\n${plugin}\n`);
const host = parseMountinfo("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
const nomad = { env: { NOMAD_ALLOC_ID: "1f2e" } };
const options = { stateDir: undefined, name: "csimux.example" };
const usual = "/var/lib/csimux/csimux.example";

const hostMount = "3 1 8:1 / /host rw - ext4 /dev/sda1 rw";
const withHost = parseMountinfo(`${overlay}\n${plugin}\n${hostMount}\n`);
const onHost = `/host${usual}`;

describe("the folder of a node's records", () => {
  // The image has an empty folder /host.
  test.each([
    ["in a container of Nomad, where the client's folder is mounted", nomad, container, "/local/csi/.csimux", "image"],
    ["in a container of Nomad with the client's root at /host", nomad, withHost, onHost, "image"],
    [
      "in a container of Nomad with another stage_publish_base_dir",
      nomad,
      parseMountinfo(`${overlay}\n`),
      usual,
      "image",
    ],
    ["in a container of Nomad from an image without /host", nomad, container, "/local/csi/.csimux", "without"],
    ["for a task of Nomad on the host", nomad, host, usual, "without"],
    ["in a container of Kubernetes", { env: {} }, withHost, onHost, "image"],
    ["on a machine", { env: {} }, host, usual, "without"],
  ])("%s", (_, at, mounts, folder, image) => {
    const exists = () => image === "image";
    expect(stateFolder(options, at, () => mounts, exists)).toBe(folder);
    expect(stateFolder({ ...options, stateDir: "/given" }, at, () => mounts, exists)).toBe("/given");
  });
});

test("a task of Nomad is warned of records that go with its container", () => {
  expect(goesWithContainer(usual, nomad, () => container)).toBe(true);
  expect(goesWithContainer("/local/csi/.csimux", nomad, () => container)).toBe(false);
  expect(goesWithContainer(usual, nomad, () => host)).toBe(false);
  expect(goesWithContainer(usual, { env: {} }, () => container)).toBe(false);
});
