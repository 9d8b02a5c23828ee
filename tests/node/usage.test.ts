import { expect, test } from "bun:test";
import { parseMountinfo } from "../../lib/core/mountinfo.ts";
import type { CommandRunner } from "../../lib/io/runner.ts";
import { UsageReader } from "../../lib/node/health/usage.ts";
import { MountTable } from "../../lib/node/mount/mount-table.ts";
import { calm, codeOf } from "./lab.ts";

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
  const usages = new UsageReader(runner);
  const leaving = new AbortController();
  const first = codeOf(usages.measure("a", "/at", table, leaving.signal));
  const second = usages.measure("a", "/at", table, calm);
  leaving.abort();
  expect(await first).toBe("unavailable");
  answer();
  expect((await second)[0]).toMatchObject({ unit: "bytes", total: 40_960n });
  expect(asked).toBe(1);
});
