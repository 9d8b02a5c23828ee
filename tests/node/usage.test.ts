import { expect, test } from "bun:test";
import { parseMountinfo } from "../../lib/core/mountinfo.ts";
import type { CommandRunner } from "../../lib/io/runner.ts";
import { StorageHealthMonitor, VolumeHealthMonitor } from "../../lib/node/health/monitor.ts";
import { VolumeStats } from "../../lib/node/health/usage.ts";
import { MountTable } from "../../lib/node/mount/mount-table.ts";
import { Mounts } from "../../lib/node/mount/mounts.ts";
import { callOf, codeOf, Lab, mountinfo } from "./lab.ts";

const table = new MountTable(parseMountinfo("1 0 0:1 / / rw - tmpfs none rw\n2 1 0:9 / /at rw - nfs4 nas:/a rw\n"));

test("a measurement shared by several callers continues when the first of them leaves", async () => {
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
  let asked = 0;
  const runner: CommandRunner = {
    where: "local",
    run: async (_, signal) => {
      asked++;
      await Promise.race([answered, new Promise((_resolve, reject) => signal.addEventListener("abort", reject))]);
      return { stdout: "4096 10 5 5 10 5", stderr: "", exitCode: 0 };
    },
  };
  const lab = await Lab.open();
  const parts = lab.parts({ mounts: new Mounts(runner, runner, mountinfo, lab.at("records")) });
  const storages = new StorageHealthMonitor(parts.attachers, async () => true, 0);
  const stats = new VolumeStats(parts, runner, new VolumeHealthMonitor(parts, storages, async () => [], 0));
  const seen = { volumeId: "a", path: "/at", table, record: undefined };
  const leaving = new AbortController();
  const first = codeOf(stats.measure(seen, callOf(leaving.signal)));
  const second = stats.measure(seen, callOf());
  leaving.abort();
  expect(await first).toBe("unavailable");
  answer();
  expect((await second).usage[0]).toMatchObject({ unit: "bytes", total: 40_960n });
  // One check of the mount, and one measurement.
  expect(asked).toBe(2);
  await lab.close();
});
