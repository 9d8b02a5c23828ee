import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { build } from "../../scripts/build.ts";

/** A command that ends by itself; `status` is null when it did not within 10 seconds. */
async function ended(args: readonly string[]) {
  const options = { timeout: 10_000, killSignal: "SIGKILL", encoding: "utf8" } as const;
  return spawnSync(await build(), args, options);
}

test("ids are shown without their control characters, and kept whole in JSON", async () => {
  const id = "v:one/\x1b[2Jpvc\n\x9b1";
  const shown = (await ended(["id", "decode", id])).stdout;
  expect(shown).toContain("id          \\u001b[2Jpvc\\u000a\\u009b1\n");
  expect(JSON.parse((await ended(["id", "decode", id, "-o", "json"])).stdout).id).toBe(id.slice(6));
  expect((await ended(["id", "decode", "\x1b[2Jx"])).stderr).toContain('"\\u001b[2Jx" is no');
  const node = (await ended(["id", "decode", "--kind", "node", "n=\x1bw1"])).stdout;
  expect(node).toContain("nodeName    \\u001bw1\n");
});

test("a legacy connection with an invalid name is bad usage", async () => {
  const { status, stderr } = await ended(["id", "decode", "plain", "--legacy-connection", "../x"]);
  expect(stderr).toContain('--legacy-connection "../x"');
  expect(status).toBe(2);
});

test.each([
  [120, "fastfastfast", "choose a connection name of at most 5 bytes"],
  [130, "fast", "no connection name is short enough, because the driver's own id alone has 130 bytes"],
])(
  "for an id of %i bytes that does not fit with the name %s, the message names the limit",
  async (bytes, connection, advice) => {
    const { stderr, status } = await ended(["id", "encode", "--strict", "volume", connection, "a".repeat(bytes)]);
    expect([status, stderr]).toEqual([1, expect.stringContaining(advice)]);
  },
);
