import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { localRunner } from "../../lib/io/local.ts";
import { type Argv, CommandError } from "../../lib/io/runner.ts";
import { pause } from "../waiting.ts";

const runner = localRunner({ env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", TEXT: "from outside" } });
const calm = new AbortController().signal;
let folder = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "csimux-local-"));
});
afterAll(() => rm(folder, { recursive: true }));

const failed = async (work: Promise<unknown>): Promise<CommandError> => {
  const error = await work.then(
    () => undefined,
    (cause: unknown) => cause,
  );
  if (!(error instanceof CommandError)) throw new Error(`expected a CommandError, got ${String(error)}`);
  return error;
};

const gone = async (pid: number): Promise<void> => {
  const end = Date.now() + 20_000;
  while (Date.now() < end) {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
    if (stat === undefined || stat.split(") ")[1]?.startsWith("Z")) return;
    await pause(10);
  }
  throw new Error(`process ${pid} still lives`);
};

/** Runs a script into its time limit. A slow machine gets a longer limit, until the script has written `ready`. */
async function atLimit(argv: Argv, ready: string): Promise<void> {
  for (let timeoutMs = 300; timeoutMs < 20_000; timeoutMs *= 4) {
    const error = await failed(runner.run({ argv, timeoutMs }, calm));
    expect(error.failure).toBe("timeout");
    expect(error.message).toContain(`${timeoutMs} ms`);
    if ((await readFile(ready, "utf8").catch(() => "")).endsWith("\n")) return;
  }
  throw new Error(`the script wrote no ${ready}`);
}

const sh = (script: string, ...words: readonly string[]): Argv => ["sh", "-c", script, "sh", ...words];

describe("a program that ends by itself", () => {
  test("gives its output and exit code, whatever the code is", async () => {
    const output = await runner.run({ argv: sh("echo out; echo err >&2; exit 7") }, calm);
    expect(output).toEqual({ stdout: "out\n", stderr: "err\n", exitCode: 7 });
  });

  test("gets its arguments untouched by any shell", async () => {
    const words = ["a b", "$HOME", "'\"", "*", "", "\u00fc\n"];
    const { stdout } = await runner.run({ argv: ["printf", "%s|", ...words] }, calm);
    expect(stdout).toBe(words.map(word => `${word}|`).join(""));
  });

  test("sees only the allowed environment, in the C locale", async () => {
    const { stdout } = await runner.run({ argv: ["env"], env: { MORE: "yes", LC_ALL: "de_DE" } }, calm);
    const names = stdout.trim().split("\n").sort();
    expect(names).toEqual(["LC_ALL=C", "MORE=yes", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TEXT=from outside"]);
  });

  test("reads its input", async () => {
    const text = "line\n".repeat(100_000);
    expect((await runner.run({ argv: ["wc", "-c"], stdin: text }, calm)).stdout.trim()).toBe(String(text.length));
  });

  test("may ignore its input", async () => {
    const { exitCode } = await runner.run({ argv: ["true"], stdin: "x".repeat(1_000_000) }, calm);
    expect(exitCode).toBe(0);
  });

  test("reads an empty input if none is given", async () => {
    expect((await runner.run({ argv: ["cat"] }, calm)).stdout).toBe("");
  });

  test("is not cut inside a character that arrives in two pieces", async () => {
    const { stdout } = await runner.run({ argv: sh("printf '\\303'; sleep 0.05; printf '\\274'") }, calm);
    expect(stdout).toBe("\u00fc");
  });

  test("keeps the first and last 64 KiB of long messages and says what is missing", async () => {
    const { stderr } = await runner.run(
      { argv: sh("exec >&2; echo begin; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end") },
      calm,
    );
    expect(stderr.startsWith("begin\n")).toBe(true);
    expect(stderr.endsWith("x\nend\n")).toBe(true);
    expect(stderr).toContain(`\n[${1_000_011 - 131_072} bytes omitted]\n`);
    expect(stderr.length).toBeLessThan(132_000);
  });

  test("keeps messages of exactly 128 KiB whole", async () => {
    const { stderr } = await runner.run({ argv: sh("head -c 131072 /dev/zero | tr '\\0' x >&2") }, calm);
    expect(stderr).toBe("x".repeat(131_072));
  });

  test("may write exactly as much as its limit", async () => {
    const argv = sh("head -c 200000 /dev/zero | tr '\\0' x");
    expect((await runner.run({ argv, maxBytes: 200_000 }, calm)).stdout).toBe("x".repeat(200_000));
  });

  test("that writes more than its limit fails, is ended, and its output is discarded", async () => {
    const path = join(folder, "flood");
    const argv = sh('echo $$ > "$1"; while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done', path);
    const error = await failed(runner.run({ argv }, calm));
    expect(error.failure).toBe("overflow");
    expect(error.message).toContain("65536");
    await gone(Number(await readFile(path, "utf8")));
    expect((await failed(runner.run({ argv: sh("printf 12345"), maxBytes: 4 }, calm))).failure).toBe("overflow");
  });

  test("keeps a character across the boundary of the first 64 KiB", async () => {
    const script = "exec >&2; head -c 65535 /dev/zero | tr '\\0' x; printf '\\303\\274'";
    expect((await runner.run({ argv: sh(script) }, calm)).stderr).toBe(`${"x".repeat(65_535)}\u00fc`);
  });

  test("is finished even if a child keeps its pipes open", async () => {
    const begun = Date.now();
    const { stdout, exitCode } = await runner.run({ argv: sh("sleep 30 & echo $!") }, calm);
    expect(exitCode).toBe(0);
    expect(Date.now() - begun).toBeLessThan(10_000);
    process.kill(Number(stdout));
  });
});

describe("a program that has left a child behind which writes without a pause", () => {
  // For half a minute, so that nothing is left of a failed test.
  const loop = "n=0; while [ $n -lt 300 ]; do n=$((n+1)); echo x >&2; sleep 0.1; done";
  const chatty = (path: string) => sh(`(trap "" PIPE; ${loop}) & echo $! > "$1"; echo done`, path);

  /** The result, which must come soon, and the end of the child, which must live. */
  async function soon(path: string, work: Promise<{ readonly stdout: string; readonly exitCode: number }>) {
    const begun = performance.now();
    const { stdout, exitCode } = await work;
    expect({ stdout, exitCode }).toEqual({ stdout: "done\n", exitCode: 0 });
    expect(performance.now() - begun).toBeLessThan(15_000);
    process.kill(Number(await readFile(path, "utf8")));
  }

  test("is finished at its time limit, with its exit code", async () => {
    const path = join(folder, "chatty");
    await soon(path, runner.run({ argv: chatty(path), timeoutMs: 2_000 }, calm));
  });

  test("is finished when the call ends", async () => {
    const path = join(folder, "chatty-cancelled");
    await soon(path, runner.run({ argv: chatty(path) }, AbortSignal.timeout(2_000)));
  });
});

describe("a program that cannot start", () => {
  test("is missing", async () => {
    const error = await failed(runner.run({ argv: ["no-such-program"] }, calm));
    expect(error.failure).toBe("missing");
    expect(error.message).toBe("no-such-program: there is no such program (local)");
  });

  test("is denied", async () => {
    const path = join(folder, "plain");
    await writeFile(path, "#!/bin/sh\n");
    await chmod(path, 0o644);
    expect((await failed(runner.run({ argv: [path] }, calm))).failure).toBe("denied");
  });

  test("has too many arguments", async () => {
    const error = await failed(runner.run({ argv: ["true", "x".repeat(4_000_000)] }, calm));
    expect(error.failure).toBe("spawn");
  });

  test.each([
    [["true", undefined], "argument 1 is undefined, not text"],
    [["true", "a", 7], "argument 2 is number, not text"],
    [["true", "a\0b"], "argument 1 contains a NUL"],
    [[""], "no program given"],
    [[], "no program given"],
  ])("is refused for %j", async (argv, reason) => {
    const error = await failed(runner.run({ argv: argv as unknown as Argv }, calm));
    expect(error.failure).toBe("spawn");
    expect(error.message).toContain(reason);
  });

  test("is not tried once the call has ended", async () => {
    const path = join(folder, "never");
    const error = await failed(runner.run({ argv: ["touch", path] }, AbortSignal.abort()));
    expect(error.failure).toBe("cancelled");
    expect(await Bun.file(path).exists()).toBe(false);
  });
});

describe("a program that is ended", () => {
  test("takes its whole process group with it at the time limit", async () => {
    const path = join(folder, "pids");
    await atLimit(sh('sleep 60 & echo $! $$ > "$1"; wait', path), path);
    for (const pid of (await readFile(path, "utf8")).split(" ")) await gone(Number(pid));
  });

  test("is killed when it ignores SIGTERM", async () => {
    const path = join(folder, "stubborn");
    await atLimit(sh("trap '' TERM; echo $$ > \"$1\"; while :; do sleep 0.1; done", path), path);
    await gone(Number(await readFile(path, "utf8")));
  });

  test("may clean up on SIGTERM, but its children that ignore it are killed", async () => {
    const path = join(folder, "tidy");
    const child = `trap '' TERM; echo $$ > "$1.child"; while :; do sleep 0.1; done`;
    const script = `trap 'echo tidied > "$1"; exit 0' TERM; sh -c "$2" sh "$1" & wait`;
    await atLimit(sh(script, path, child), `${path}.child`);
    expect(await readFile(path, "utf8")).toBe("tidied\n");
    await gone(Number(await readFile(`${path}.child`, "utf8")));
  });

  test("is cancelled by its signal", async () => {
    const call = new AbortController();
    const work = failed(runner.run({ argv: ["sleep", "60"] }, call.signal));
    call.abort();
    expect((await work).failure).toBe("cancelled");
  });

  test("and fails even if it exits with 0 on SIGTERM", async () => {
    const argv = sh("trap 'exit 0' TERM; while :; do sleep 0.05; done");
    expect((await failed(runner.run({ argv, timeoutMs: 200 }, calm))).failure).toBe("timeout");
  });

  test("by another process is distinguished", async () => {
    const error = await failed(runner.run({ argv: sh("kill -KILL $$") }, calm));
    expect(error.failure).toBe("killed");
    expect(error.message).toContain("SIGKILL");
  });

  test("leaves no listener on the signal", async () => {
    const call = new AbortController();
    let left = 0;
    const { addEventListener, removeEventListener } = call.signal;
    call.signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
      left++;
      addEventListener.apply(call.signal, args);
    };
    call.signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
      left--;
      removeEventListener.apply(call.signal, args);
    };
    await runner.run({ argv: ["true"] }, call.signal);
    expect(left).toBe(0);
  });
});

test("secrets are masked in stderr and in errors, longest first, and stdout stays data", async () => {
  const secret = ["pass", "password1", ""];
  const output = await runner.run({ argv: sh("echo password1; echo password1 pass >&2"), secret }, calm);
  expect(output.stderr).toBe("*** ***\n");
  expect(output.stdout).toBe("password1\n");
});

describe("a held program", () => {
  const hold = (argv: Argv, signal = calm) => runner.hold?.(argv, signal) ?? Promise.reject(new Error("cannot hold"));

  test("runs until it is released", async () => {
    const held = await hold(["cat"]);
    expect(await readFile(`/proc/${held.pid}/comm`, "utf8")).toBe("cat\n");
    await held.release();
    await gone(held.pid);
  });

  test("ends with the process that holds it, even if that is killed", async () => {
    const code = [
      'import { localRunner } from "./lib/io/local.ts";',
      'const { hold } = localRunner({ env: { PATH: "/usr/bin:/bin" } });',
      'console.log((await hold(["cat"], new AbortController().signal)).pid);',
      "setInterval(() => {}, 1000);",
    ].join("\n");
    const holder = Bun.spawn([process.execPath, "-e", code], { cwd: join(import.meta.dir, "../.."), stdout: "pipe" });
    const { value } = await holder.stdout.getReader().read();
    const pid = Number(new TextDecoder().decode(value));
    expect(await readFile(`/proc/${pid}/comm`, "utf8")).toBe("cat\n");
    holder.kill("SIGKILL");
    await gone(pid);
  });

  test("is missing, denied or cancelled like any other program", async () => {
    expect((await failed(hold(["no-such-program-here"]))).failure).toBe("missing");
    const denied = await failed(hold(sh("echo not allowed >&2; exit 3")));
    expect([denied.failure, denied.message]).toEqual(["denied", "sh: exit code 3: not allowed (local)"]);
    expect((await failed(hold(["cat"], AbortSignal.abort()))).failure).toBe("cancelled");
    const stop = new AbortController();
    const silent = failed(hold(["sleep", "600"], stop.signal));
    stop.abort();
    expect((await silent).failure).toBe("cancelled");
  });
});
