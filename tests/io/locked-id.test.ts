import { afterEach, beforeEach, expect, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { localRunner } from "../../lib/io/local.ts";
import { lockedId } from "../../lib/io/locked-id.ts";

const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
const runner = localRunner({ env });
const program = `
import { lockedId } from "${import.meta.dir}/../../lib/io/locked-id.ts";
import { localRunner } from "${import.meta.dir}/../../lib/io/local.ts";
const runner = localRunner({ env: ${JSON.stringify(env)} });
console.log(String(await lockedId(process.argv[2] ?? "", runner)));
setInterval(() => {}, 1_000);
`;

let folder = "";
let path = "";
const started: ChildProcess[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "csimux-locked-id-"));
  path = join(folder, "csi.sock.owner");
  writeFileSync(join(folder, "program.ts"), program);
});
afterEach(() => {
  for (const each of started.splice(0)) each.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

/** A process that asks for the id, and what it gets. */
async function other(): Promise<{ readonly id: string; kill(): Promise<void> }> {
  const child = spawn(process.execPath, [join(folder, "program.ts"), path], { stdio: ["ignore", "pipe", "inherit"] });
  started.push(child);
  const exited = new Promise<void>(done => child.once("exit", () => done()));
  const id = await new Promise<string>(done => child.stdout.once("data", chunk => done(String(chunk).trim())));
  return {
    id,
    async kill() {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

const uuid = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

test("the next process gets the id of one that was killed, and none gets that of one that runs", async () => {
  const first = await other();
  expect(first.id).toMatch(uuid);
  expect((await other()).id).toBe("undefined");
  expect(await lockedId(path, runner)).toBeUndefined();
  await first.kill();
  const ends = await Promise.all([other(), other(), other()]);
  expect(ends.map(({ id }) => id).sort()).toEqual([first.id, "undefined", "undefined"].sort());
});

test("an id of another boot, in a copy of the file, or that is damaged, is replaced", async () => {
  const first = await other();
  await first.kill();
  const text = readFileSync(path, "latin1");
  const earlier = text.replace(/ \S+ /, " 00000000-0000-0000-0000-000000000000 ");
  for (const [at, changed] of [earlier, "", "\0".repeat(9_000), text.slice(0, 40)].entries()) {
    writeFileSync(path, changed);
    const next = await other();
    expect([at, next.id]).toEqual([at, expect.stringMatching(uuid)]);
    expect(next.id).not.toBe(first.id);
    await next.kill();
  }
  cpSync(path, `${path}2`);
  const id = await lockedId(`${path}2`, runner);
  expect(id).toMatch(uuid);
  expect(id).not.toBe(readFileSync(path, "latin1").slice(0, 36));
});

test("without flock, in a folder that is missing, and through a link there is none", async () => {
  expect(await lockedId(path, localRunner({ env: { PATH: folder } }))).toBeUndefined();
  expect(await lockedId(join(folder, "missing", "x"), runner)).toBeUndefined();
  symlinkSync(join(folder, "elsewhere"), `${path}3`);
  expect(await lockedId(`${path}3`, runner)).toBeUndefined();
  expect(existsSync(join(folder, "elsewhere"))).toBe(false);
});
