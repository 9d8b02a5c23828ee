import { describe, expect, test } from "bun:test";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { promisify } from "node:util";

/** The outcome of calls to a hostile server, with client and server in processes of their own. */
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

/** The limit of address growth in MiB. */
const limitMiB = 256;

/** The outcome of one call; of a second one if the first took too much: garbage of a busy machine is collected late. */
async function called(kind: string, form: string) {
  const first = await against(kind, form, 1);
  return first.grownMiB < limitMiB ? first : against(kind, form, 1);
}

const refused =
  /did not send a JSON object|closed the connection|longer than|without an answer in JSON|is not the web interface/;

for (const kind of ["rpc", "rest", "dsm"])
  describe(`a hostile server over ${kind} costs little memory and delays nothing else`, () => {
    for (const form of ["numbers", "empty objects", "200 MiB", "deep", "endless"])
      test(form, async () => {
        const ended = await called(kind, form);
        expect(ended.how).toMatch(refused);
        expect(ended.grownMiB).toBeLessThan(limitMiB);
        expect(ended.longestMs).toBeLessThan(1000);
      });

    test("rows of 40,000 volumes are read", async () => {
      const ended = await called(kind, "rows");
      expect(ended.how).toBe("answered true");
      expect(ended.grownMiB).toBeLessThan(limitMiB);
      expect(ended.longestMs).toBeLessThan(1000);
    });
  });

test("ten concurrent answers of 60 MiB end the connection before they are stored", async () => {
  const ended = await against("rpc", "numbers", 10);
  expect(ended.how).toMatch(refused);
  expect(ended.grownMiB).toBeLessThan(512);
});
