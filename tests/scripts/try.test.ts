import { expect, test } from "bun:test";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "../../scripts/build.ts";
import { below } from "../../scripts/check/below.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox } from "../../scripts/sandbox.ts";
import { root } from "../../scripts/spawned.ts";
import { walk } from "../../scripts/try.ts";
import { isHostRoot } from "../root.ts";
import { World } from "../serve/world.ts";

test("the walk of `make try` comes to its end, every time, and leaves nothing on the two connections", async () => {
  const world = await World.start("off", ["fast", "archive"]);
  try {
    for (const _ of [1, 2]) {
      const lines: string[] = [];
      await walk(world.sandbox.socket, (call, answer) => void lines.push(`${call}: ${answer}`));
      expect(lines.filter(line => line.endsWith(": gone"))).toHaveLength(4);
      for (const name of ["fast", "archive"]) expect(await world.stored(name)).toEqual([]);
    }
  } finally {
    expect(await world.end()).toEqual([]);
  }
});

const user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] as const;

/** Whether an ordinary user may pass through a folder, and those above it. */
function passable(folder: string): boolean {
  const [program, ...args] = [...user, "test", "-x", folder];
  return spawnSync(program, args).status === 0;
}

const servable = isHostRoot && passable(root) && passable(tmpdir());

/** A world of the quick start's own connection files, served by an ordinary user. */
async function ordinary(change = (text: string) => text) {
  const sandbox = await makeSandbox("off", []);
  for (const name of ["fast", "archive"]) {
    await mkdir(join(sandbox.folder, name));
    const text = await readFile(join(root, `examples/quickstart/connections/${name}.yaml`), "utf8");
    await writeFile(join(sandbox.connections, `${name}.yaml`), change(text));
  }
  execFileSync("chown", ["-R", "65534:65534", sandbox.folder]);
  const daemon = await startDaemon({ command: [...user, await build()], sandbox, env: { QUICKSTART: sandbox.folder } });
  return { sandbox, daemon };
}

test.skipIf(!servable)("the walk needs no root: the quick start works as an ordinary user", async () => {
  const { sandbox, daemon } = await ordinary();
  const lines: string[] = [];
  await walk(sandbox.socket, (call, answer) => void lines.push(`${call}: ${answer}`));
  expect(lines.filter(line => line.startsWith("DeleteVolume") && line.endsWith(": gone"))).toHaveLength(2);
  for (const line of lines.filter(each => each.includes("refused"))) expect(line).toContain("may not mount");
  expect((await daemon.stop()).code).toBe(0);
  expect(await sandbox.remove()).toEqual([]);
});

test.skipIf(!servable)("a walk that fails says why in the storage's words, and leaves nothing behind", async () => {
  const group = '  dirPermissionsMode: "0770"\n  dirPermissionsGroup: "1000"';
  const { sandbox, daemon } = await ordinary(text => text.replace('  dirPermissionsMode: "0770"', group));
  const error = await walk(sandbox.socket, () => undefined).catch((cause: unknown) => String(cause));
  expect(error).toContain("because only root can");
  for (const name of ["fast", "archive"]) {
    const all = below(join(sandbox.folder, name));
    expect(all.filter(each => each.includes("try-"))).toEqual([]);
  }
  expect((await daemon.stop()).code).toBe(0);
  expect(await sandbox.remove()).toEqual([]);
});
