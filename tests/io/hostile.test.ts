import { describe, expect, test } from "bun:test";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { promisify } from "node:util";

/** What calls of a hostile server came to, each side in a process of its own. */
async function against(kind: string, form: string, calls: number) {
  const server = spawn(process.execPath, [`${import.meta.dir}/../fakes/hostile/server.ts`, kind, form], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  try {
    const [port] = await once(server.stdout, "data");
    const argv = [`${import.meta.dir}/hostile-client.ts`, kind, String(port).trim(), String(calls)];
    const { stdout } = await promisify(execFile)(process.execPath, argv, { timeout: 55_000 });
    return JSON.parse(stdout) as { readonly how: string; readonly grownMiB: number; readonly longestMs: number };
  } finally {
    server.kill("SIGKILL");
  }
}

const refused =
  /other than a JSON object|closed the connection|longer than|without an answer in JSON|does not answer as/;

for (const kind of ["rpc", "rest", "dsm"])
  describe(`a server that answers as none does, over ${kind}, costs little memory, and nothing else waits for it`, () => {
    for (const form of ["numbers", "empty objects", "200 MiB", "deep", "endless"])
      test(form, async () => {
        const ended = await against(kind, form, 1);
        expect(ended.how).toMatch(refused);
        expect(ended.grownMiB).toBeLessThan(256);
        expect(ended.longestMs).toBeLessThan(1000);
      });

    test("rows of 40,000 volumes are read", async () => {
      const ended = await against(kind, "rows", 1);
      expect(ended.how).toBe("answered true");
      expect(ended.grownMiB).toBeLessThan(256);
      expect(ended.longestMs).toBeLessThan(1000);
    });
  });

test("ten answers of 60 MiB at once end the connection before they are kept", async () => {
  const ended = await against("rpc", "numbers", 10);
  expect(ended.how).toMatch(refused);
  expect(ended.grownMiB).toBeLessThan(512);
});
