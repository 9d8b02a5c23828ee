import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { addCopies } from "../../cmd/cluster/copies/command.ts";
import type { CopyAnswer, CopyCommand } from "../../lib/copies/protocol.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { leveledLog } from "../../lib/core/log.ts";
import { commandSocketOf, serveCommands } from "../../lib/observe/command-socket.ts";

const folder = mkdtempSync(join(tmpdir(), "csimux-copies-"));
const asked: CopyCommand[] = [];

/** A copy that runs. */
const state: CopyAnswer = {
  ...({ kind: "copy", target: "v:b/pvc-2", source: "s:a/pvc-1@x", sourceKind: "snapshot", name: "pvc-2" } as const),
  ...({ role: "create", state: "copying", method: "zfs-send", pass: 0, done: 37n << 30n, total: 120n << 30n } as const),
  ...{ rate: 112n << 20n, asked: Math.floor(Date.now() / 1000) - 3, holder: "x", fault: "link\x1b[2J lost" },
};

const server = await serveCommands(
  commandSocketOf(join(folder, "csi.sock")),
  async (command, tell) => {
    asked.push(command);
    if (command.command === "list") {
      tell(state);
      tell({ ...state, target: "v:b/pvc-3", ahead: 2 });
      tell({ kind: "done", listed: ["b"], unlisted: ["c\x1b"], kept: ["a record is kept\x1b"] });
      return;
    }
    if (command.command === "cancel") throw new CsiError("not-found", `there is no copy to volume ${command.target}`);
    if (command.command === "pass") {
      tell({ kind: "progress", text: "volume is being copied: 37.0 GiB of 120 GiB", done: 1n, total: 2n, rate: 3n });
      // It continues after its client has left.
      if (command.target === "v:b/slow") return new Promise(() => {});
      tell({ kind: "done", pass: { number: 2, snapshotTime: 1, continued: false, bytes: 5n << 20n, seconds: 3.2 } });
      return;
    }
    tell({ kind: "done", ...(command.command === "freeze" && { instead: ["it stays writable\x1b; noted"] }) });
  },
  leveledLog("error", () => {}),
);
afterAll(() => {
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

async function run(words: readonly string[], stdin = "", endpoint = `unix://${folder}/csi.sock`) {
  const out: string[] = [];
  const err: string[] = [];
  const host = { out: (text: string) => void out.push(text), err: (text: string) => void err.push(text), env: {} };
  const program = new Command("csimux").exitOverride();
  addCopies(program, { ...host, stdin: async () => stdin, hostname: "box", colour: false, pause: async () => {} });
  const before = process.exitCode;
  await program.parseAsync(["node", "csimux", "copies", ...words, "--endpoint", endpoint]);
  const code = Number(process.exitCode ?? 0);
  process.exitCode = before ?? 0;
  return { code, out: out.join(""), err: err.join("") };
}

describe("csimux copies", () => {
  test("freeze of a storage that cannot forbid writing succeeds when the stop is noted, and says that on standard error", async () => {
    const err = "csimux: it stays writable\\u001b; noted\n";
    expect(await run(["freeze", "v:a/pvc-1"])).toEqual({ code: 0, out: "done\n", err });
    const json = await run(["freeze", "v:a/pvc-1", "-o", "json"]);
    expect(json).toMatchObject({ code: 0, err, out: expect.stringContaining('"kind":"done"') });
  });

  test("lists the copies as a table that is safe for terminals, and as JSON with exact sizes", async () => {
    const text = await run(["list"]);
    expect(text.code).toBe(0);
    expect(text.out).toMatch(/^VOLUME +FROM +METHOD +STATE +COPIED +RATE +LEFT +ASKED +FAULT$/m);
    expect(text.out).toMatch(
      /^v:b\/pvc-2 +a +zfs-send +copying +37.0 GiB of 120 GiB +112 MiB\/s +12m +\d+s +link\\u001b\[2J lost$/m,
    );
    expect(text.out).toMatch(/^v:b\/pvc-3 +a +zfs-send +waiting, 2 ahead /m);
    expect(text.out).not.toContain("\x1b");
    expect(text.out).toEndWith(
      "\na record is kept\\u001b\nnot listed, because csimux cannot use these connections now (csimux status says why): c\\u001b\n",
    );
    const json = await run(["list", "-o", "json"]);
    expect(JSON.parse(json.out)).toMatchObject({
      copies: [
        { target: "v:b/pvc-2", done: String(37n << 30n) },
        { target: "v:b/pvc-3", ahead: 2 },
      ],
      listed: ["b"],
      unlisted: ["c\x1b"],
      kept: ["a record is kept\x1b"],
    });
  });

  test("a refusal is exit code 1 with its reason; for programs with its code", async () => {
    expect(await run(["cancel", "v:b/none"])).toEqual({
      code: 1,
      out: "",
      err: "csimux: there is no copy to volume v:b/none\n",
    });
    const { code, out } = await run(["cancel", "v:b/none", "-o", "json"]);
    expect([code, JSON.parse(out)]).toEqual([
      1,
      { kind: "failed", code: "not-found", message: "there is no copy to volume v:b/none" },
    ]);
  });

  test("a pass says what it copied; with --wait it is left, and continues", async () => {
    const done = await run(["pass", "v:b/pvc-2"]);
    expect([done.code, done.out]).toEqual([
      0,
      "volume is being copied: 37.0 GiB of 120 GiB\npass 3 copied 5.0 MiB in 3 s\n",
    ]);
    const left = await run(["pass", "v:b/slow", "--wait", "0.3", "-o", "json"]);
    expect([left.code, JSON.parse(left.out).kind]).toEqual([3, "progress"]);
  });

  test("begin reads what is wanted from standard input, and the controller checks it", async () => {
    const wanted = { source: "v:a/pvc-1", name: "moved-1", bytes: "1073741824", parameters: { connection: "b" } };
    expect(await run(["begin"], JSON.stringify(wanted))).toMatchObject({ code: 0 });
    expect(asked.at(-1)).toMatchObject({ command: "begin", name: "moved-1", bytes: 1n << 30n });
    expect(await run(["begin"], JSON.stringify({ ...wanted, bytes: 5 }))).toMatchObject({
      code: 1,
      err: expect.stringContaining("bytes"),
    });
    expect(await run(["plan"], "[]")).toMatchObject({
      code: 2,
      err: "csimux: standard input is not a JSON object; it must have source, name, bytes and parameters\n",
    });
    // The command line decides which request it is.
    expect(await run(["begin"], JSON.stringify({ ...wanted, command: "cancel" }))).toMatchObject({ code: 0 });
    expect(asked.at(-1)?.command).toBe("begin");
  });

  test.each([
    [["list"], "unix:///nonexistent/csi.sock", "does not exist; is a controller of csimux running"],
    [["list"], "tcp://127.0.0.1:1", "is not a Unix socket"],
    [["list", "-o", "yaml"], undefined, "--output must be text or json"],
    [["pass", "v:b/a", "--wait", "-1"], undefined, "--wait must be a number of seconds"],
  ])("%p at %p is exit code 2", async (words, endpoint, text) => {
    expect(await run(words, "", endpoint ?? `unix://${folder}/csi.sock`)).toMatchObject({
      code: 2,
      err: expect.stringContaining(text),
    });
  });
});
