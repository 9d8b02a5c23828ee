import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openPipe } from "../../../lib/copies/stream-pipe.ts";
import { localRunner } from "../../../lib/io/local.ts";
import { localHost } from "../../../lib/io/local-host.ts";
import { type Argv, type Child, CommandError, type Output } from "../../../lib/io/runner.ts";
import type { StorageHost } from "../../../lib/io/script.ts";
import { ask, calm, hosts, leadsTo, until } from "./rig.ts";
import { freePort, type Sshd, signal, startSshd } from "./sshd.ts";

const opened = hosts();
const machines = new Map<string, StorageHost>();
let sshd: Sshd;
let csh: Sshd;
let noisy: Sshd;

/** A login shell that prints before each command, as a profile may. */
const noisyShell = '#!/bin/sh\necho welcome\necho "to a noisy host" >&2\nexec /bin/sh "$@"\n';

beforeAll(async () => {
  [sshd, csh, noisy] = await Promise.all([
    startSshd({ password: "hunter2" }),
    startSshd({ shell: "/bin/tcsh" }),
    startSshd({ text: noisyShell }),
  ]);
  machines.set("this machine", localHost(localRunner({ env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" } })));
  for (const [name, { settings }] of Object.entries({ ssh: sshd, "ssh to tcsh": csh, "ssh to a noisy login": noisy }))
    machines.set(name, opened.hosts.lease(settings()).value);
  before = open();
});
afterAll(async () => {
  await opened.hosts.close();
  await Promise.all([sshd, csh, noisy].map(each => each?.stop()));
});

/** What the descriptors of this process lead to, and the names of pipes. A pipe and a socket have a number that is never used again. */
const open = () => ({ leads: readdirSync("/proc/self/fd").map(leadsTo).filter(Boolean), pipes: pipes() });
const pipes = () => readdirSync("/dev/shm").filter(name => name.startsWith("csimux-pipe-"));
let before: ReturnType<typeof open>;
/** Waits until none of these is left. Other programs on the machine make and remove some, too. */
async function namesGone(): Promise<void> {
  const made = pipes().filter(name => !before.pipes.includes(name));
  await until("no name is left", () => pipes().every(name => !made.includes(name)));
}
const started: Child[] = [];
const gone = (pid: number): boolean => {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return true;
  }
};
afterEach(async () => {
  await Promise.all(started.splice(0).map(({ end }) => end()));
});

const hostOf = (where: string): StorageHost => {
  const found = machines.get(where);
  if (!found) throw new Error(where);
  return found;
};

async function child(where: string, argv: Argv, streams = {}, call = calm): Promise<Child> {
  const start = hostOf(where).child;
  if (!start) throw new Error(`${where} has no children`);
  const made = await start(argv, streams, call);
  started.push(made);
  return made;
}

/** The ends of two programs that are joined by a pipe: each one's output, or why it has none. */
async function joined(from: readonly [string, Argv], to: readonly [string, Argv]) {
  const pipe = await openPipe(calm);
  try {
    const writer = child(...from, { stdout: pipe.writer });
    const reader = child(...to, { stdin: pipe.reader });
    const both = await Promise.all([writer, reader]);
    return { both, ends: () => Promise.all(both.map(({ ended }) => ended.catch((error: CommandError) => error))) };
  } finally {
    await pipe.close();
  }
}

const sh = (text: string, ...words: string[]): Argv => ["sh", "-c", text, "sh", ...words];
const codes = (ends: readonly (Output | CommandError)[]) =>
  ends.map(end => (end instanceof CommandError ? end.failure : end.exitCode));

describe.each(["this machine", "ssh", "ssh to tcsh", "ssh to a noisy login"])("a child on %s", where => {
  test("gets every word untouched, and an empty input", async () => {
    const words = [
      "a b",
      "$HOME `id` $(id)",
      "'\"'\\''",
      "*",
      "",
      "!x !! \\",
      "ü\n\ttwo\nlines\n",
      "~root",
      "-n",
      "#%s",
    ];
    const { ended } = await child(where, ["printf", "%s|", ...words]);
    const noise = where.includes("noisy") ? "welcome\n" : "";
    expect(await ended).toEqual({ stdout: noise + words.map(word => `${word}|`).join(""), stderr: "", exitCode: 0 });
    expect((await (await child(where, sh("cat; echo bad >&2; exit 7"))).ended).exitCode).toBe(7);
  });

  test("keeps the beginning and the end of what it prints, and nothing of the login", async () => {
    const { ended } = await child(where, sh("echo first; yes x | head -c 5000000 >&2; echo last >&2"));
    const { stderr } = await ended;
    expect(stderr).toStartWith("x\nx\n");
    expect(stderr).toEndWith("x\nlast\n");
    expect(stderr.length).toBeLessThan(140_000);
  });

  test("reports a missing program", async () => {
    const { exitCode, stderr } = await (await child(where, ["no-such-program", "x"])).ended;
    expect(exitCode).toBe(127);
    expect(stderr).toContain("no-such-program");
  });

  test("writes a stream that another one reads, byte for byte", async () => {
    const bytes = 3_000_001;
    const sum = await ask(hostOf("this machine"), sh(`yes 'ä b' | head -c ${bytes} | sha256sum`));
    const to: readonly [string, Argv] = ["ssh", sh('sha256sum; echo "end of $1" >&2', "it")];
    const { ends } = await joined([where, sh(`yes 'ä b' | head -c ${bytes}; exit 3`)], to);
    const [from, got] = await ends();
    expect(codes([from, got] as Output[])).toEqual([3, 0]);
    const printed = (got as Output).stdout;
    if (where.includes("noisy")) expect(printed).not.toBe(sum);
    else expect(printed).toBe(sum);
  });

  test("hands over all of its output, no faster than it is taken", async () => {
    let [bytes, before] = [0, -1];
    const taken = Promise.withResolvers<void>();
    const stdout = (chunk: Uint8Array) => {
      bytes += chunk.length;
      return taken.promise;
    };
    const { ended } = await child(where, sh("head -c 9000000 /dev/zero; exit 4"), { stdout });
    await until("nothing more comes", () => {
      const isStill = bytes > 0 && bytes === before;
      before = bytes;
      return isStill;
    });
    expect(bytes).toBeLessThan(1_000_000);
    taken.resolve();
    expect((await ended).exitCode).toBe(4);
    expect(bytes).toBe(9_000_000 + (where.includes("noisy") ? "welcome\n".length : 0));
  });

  test("ends when its output is not read, with an exit code", async () => {
    const { ends } = await joined(
      [where, sh("cat /dev/zero")],
      ["this machine", sh("head -c 100000 >/dev/null; exit 5")],
    );
    const [from, to] = await ends();
    expect(to).toMatchObject({ exitCode: 5 });
    expect(codes([from] as Output[])[0]).not.toBe(0);
  });

  test("ends with its call, and when it is ended", async () => {
    const call = new AbortController();
    const one = await child(where, ["sleep", "60"], {}, call.signal);
    call.abort();
    expect(await one.ended.catch((error: CommandError) => error.failure)).toBe("cancelled");
    const two = await child(where, ["sleep", "60"]);
    await two.end();
    await two.end();
    expect(await two.ended.catch((error: CommandError) => error.failure)).toBe("cancelled");
    expect([one, two].map(({ pid }) => gone(pid))).toEqual([true, true]);
    const late = await child(where, ["true"], {}, AbortSignal.abort()).catch((error: CommandError) => error.failure);
    expect(late).toBe("cancelled");
  });

  test("is killed, and the other end of the pipe ends", async () => {
    for (const which of [0, 1]) {
      const { both, ends } = await joined([where, ["cat", "/dev/zero"]], [where, ["dd", "of=/dev/null"]]);
      const victim = both[which]?.pid ?? 0;
      await until(
        "something has been sent",
        () => Number(/rchar: (\d+)/.exec(readFileSync(`/proc/${victim}/io`, "utf8"))?.[1]) > 100_000,
      );
      signal(victim, "SIGKILL");
      const [from, to] = codes(await ends());
      if (which === 0) expect([from, to]).toEqual(["killed", 0]);
      else {
        expect(to).toBe("killed");
        expect(from).not.toBe(0);
      }
    }
  });

  test("leaves no descriptor and no name", async () => {
    const busy = await child(where, ["sleep", "60"]);
    const here = open();
    const { ends } = await joined([where, ["echo", "x"]], [where, ["cat"]]);
    await ends();
    await until("everything is closed", () => open().leads.every(each => here.leads.includes(each)));
    await namesGone();
    await busy.end();
  });
});

test("a lost connection is a failure of its own, whatever the exit code", async () => {
  const { both, ends } = await joined(["ssh", ["cat", "/dev/zero"]], ["this machine", sh("cat >/dev/null")]);
  for (const pid of sshd.sessions()) if (/^sshd/.test(await nameOf(pid))) signal(pid, "SIGKILL");
  expect(codes(await ends())).toEqual(["lost", 0]);
  expect(String(await both[0]?.ended.catch(String))).toContain("the connection was lost");
});

const nameOf = async (pid: number) =>
  (
    await Bun.file(`/proc/${pid}/comm`)
      .text()
      .catch(() => "")
  ).trim();

test("a login that is refused, a wrong host key and a dead port have different messages, and no second login follows at once", async () => {
  const wrong = opened.hosts.lease(sshd.settings({ privateKey: csh.clientKey })).value;
  const error = await wrong.child?.(["true"], {}, calm).catch((cause: CommandError) => cause);
  expect(error).toMatchObject({ failure: "unreachable", isLoginRefused: true });
  expect(await wrong.child?.(["true"], {}, calm).catch((cause: CommandError) => cause)).toBe(error as never);
  const key = opened.hosts.lease(sshd.settings({ hostKey: csh.hostKey })).value;
  expect(String(await key.child?.(["true"], {}, calm).catch(String))).toContain("host key is not the expected one");
  const dead = opened.hosts.lease(sshd.settings({ port: await freePort() })).value;
  expect(String(await dead.child?.(["true"], {}, calm).catch(String))).toContain("connection refused at this port");
});

test("a login that hangs or prints without end is given up", async () => {
  for (const text of ["#!/bin/sh\nsleep 600\n", "#!/bin/sh\nyes >&2\n"]) {
    const odd = await startSshd({ text });
    const { hosts: own } = hosts();
    try {
      const { child: start } = own.lease(odd.settings({ readyTimeout: 2_000 })).value;
      expect(String(await start?.(["true"], {}, calm).catch(String))).toMatch(
        /no shell answered within|prints endlessly/,
      );
    } finally {
      await own.close();
      await odd.stop();
    }
  }
});

test("no secret is in any argv, and eight logins at once each have the key", async () => {
  const { value } = opened.hosts.lease(sshd.settings({ privateKey: undefined, password: "hunter2" }));
  const password = await value.child?.(["sleep", "60"], {}, calm);
  const keys = await Promise.all(Array.from({ length: 8 }, () => child("ssh", ["sleep", "60"])));
  const pids = [...keys.map(({ pid }) => pid), password?.pid ?? 0, ...sshd.sessions()];
  const texts = pids.flatMap(pid => ["cmdline", "environ"].map(name => read(`/proc/${pid}/${name}`))).join("\n");
  expect(texts).toContain("SSH_ASKPASS");
  expect(texts).not.toContain("hunter2");
  expect(texts).not.toContain("PRIVATE KEY");
  await password?.end();
});

const read = (path: string): string => {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
};

test("the children of a host end when it is closed", async () => {
  const { hosts: own } = hosts();
  const made = await own.lease(sshd.settings()).value.child?.(["sleep", "60"], {}, calm);
  await own.close();
  expect(await made?.ended.catch((error: CommandError) => error.failure)).toBe("cancelled");
});

test("the children of a process that is killed end, on both sides of the connection", async () => {
  const file = join(sshd.folder, "settings.json");
  await writeFile(file, JSON.stringify(sshd.settings()), { mode: 0o600 });
  const driver = Bun.spawn([process.execPath, join(import.meta.dir, "child-owner.ts"), file], { stdout: "pipe" });
  const reader = driver.stdout.getReader();
  const pids = JSON.parse(new TextDecoder().decode((await reader.read()).value)) as number[];
  expect(pids.map(gone)).toEqual([false, false, false]);
  driver.kill("SIGKILL");
  await driver.exited;
  await until("all have ended", () => pids.every(gone));
  await until("the host has noticed", async () => {
    const names = await Promise.all(sshd.sessions().map(nameOf));
    return !names.includes("cat");
  });
  await namesGone();
});
