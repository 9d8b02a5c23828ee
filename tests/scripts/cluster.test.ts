import { afterEach, expect, test } from "bun:test";
import { missing } from "../../scripts/cluster/requirements.ts";

const path = process.env["PATH"];
afterEach(() => {
  process.env["PATH"] = path;
});

test("on a machine without the programs of the cluster, every missing package is named, and Go if something must be compiled", async () => {
  process.env["PATH"] = "/nonexistent";
  const said = (await missing({}, true)).join("\n");
  expect(said).toContain("Debian packages: containerd runc busybox-static iproute2");
  expect(said).toContain("Go 1.26 or newer");
  expect((await missing({}, false)).join("\n")).not.toContain("Go 1.26");
});
