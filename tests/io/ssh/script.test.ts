import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { localRunner } from "../../../lib/io/local.ts";
import { localHost } from "../../../lib/io/local-host.ts";
import type { StorageHost } from "../../../lib/io/script.ts";
import { later } from "../../waiting.ts";
import { ask, calm, failed, hosts, until } from "./rig.ts";
import { type Sshd, startSshd } from "./sshd.ts";

const opened = hosts();
let folder = "";
let sshd: Sshd;
let csh: Sshd;
const machines = new Map<string, StorageHost>();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "csimux-script-"));
  [sshd, csh] = await Promise.all([startSshd(), startSshd({ shell: "/bin/tcsh" })]);
  machines.set("this machine", localHost(localRunner({ env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" } })));
  machines.set("ssh", opened.hosts.lease(sshd.settings()).value);
  machines.set("ssh to an account whose shell is tcsh", opened.hosts.lease(csh.settings()).value);
});
afterAll(async () => {
  await opened.hosts.close();
  await Promise.all([sshd.stop(), csh.stop()]);
  await rm(folder, { recursive: true });
});

const sh = (text: string, ...words: string[]) => ["sh", "-c", text, "sh", ...words] as const;

describe.each(["this machine", "ssh", "ssh to an account whose shell is tcsh"])("a script on %s", where => {
  const host = (): StorageHost => {
    const found = machines.get(where);
    if (!found) throw new Error(where);
    return found;
  };

  test("keeps the output and the exit code of each step apart", async () => {
    const outputs = await host().script(
      {
        steps: [
          { name: "one", argv: ["printf", "a"] },
          { name: "two", argv: sh("echo out; echo err >&2; exit 7"), onFailure: "go-on" },
          { name: "three", argv: ["true"] },
        ],
      },
      calm,
    );
    expect([...outputs]).toEqual([
      ["one", { stdout: "a", stderr: "", exitCode: 0 }],
      ["two", { stdout: "out\n", stderr: "err\n", exitCode: 7 }],
      ["three", { stdout: "", stderr: "", exitCode: 0 }],
    ]);
  });

  test("skips the steps after a nonzero exit code", async () => {
    const path = join(folder, "never");
    const script = {
      steps: [
        { name: "bad", argv: ["false"] },
        { name: "next", argv: ["touch", path] },
      ],
    } as const;
    expect([...(await host().script(script, calm)).keys()]).toEqual(["bad"]);
    expect(await Bun.file(path).exists()).toBe(false);
  });

  test("skips a step whose condition failed, and the steps that depend on it", async () => {
    const outputs = await host().script(
      {
        steps: [
          { name: "bad", argv: ["false"], onFailure: "go-on" },
          { name: "after bad", argv: ["echo", "no"], onlyAfter: "bad" },
          { name: "after that", argv: ["echo", "no"], onlyAfter: "after bad" },
          { name: "good", argv: ["echo", "yes"] },
          { name: "after good", argv: ["printf", "%s!", { outputOf: "good" }], onlyAfter: "good" },
          { name: "instead of good", argv: ["echo", "no"], unless: "good" },
          { name: "instead of bad", argv: ["echo", "instead"], unless: "bad" },
          { name: "neither", argv: ["echo", "no"], onlyAfter: "bad", unless: "good" },
          { name: "both", argv: ["echo", "both"], onlyAfter: "good", unless: "bad" },
        ],
      },
      calm,
    );
    expect([...outputs].map(([name, { stdout }]) => [name, stdout])).toEqual([
      ["bad", ""],
      ["good", "yes\n"],
      ["after good", "yes!"],
      ["instead of bad", "instead\n"],
      ["both", "both\n"],
    ]);
  });

  test("passes every word untouched", async () => {
    const words = ["a b", "$HOME `id` $(id)", "'\"'\\''", "*", "", "!x !! \\", "ü\n\ttwo\nlines\n", "~root", "-n", "#"];
    const shown = words.map(word => `${word}|`).join("");
    expect(await ask(host(), ["printf", "%s|", ...words])).toBe(shown);
    const outputs = await host().script({ steps: [{ name: "in", argv: ["cat"], stdin: shown }] }, calm);
    expect(outputs.get("in")?.stdout).toBe(shown);
  });

  test("passes words of any bytes that text can have", async () => {
    let seed = 7;
    const random = (n: number): number => {
      seed = (seed * 1103515245 + 12345) % 2 ** 31;
      return seed % n;
    };
    const alphabet = [..." '\"\\$`!*?[]{}()<>|&;#~%=\n\tab0-ü€😀"];
    const words = Array.from({ length: 200 }, () =>
      Array.from({ length: random(12) }, () => alphabet[random(alphabet.length)]).join(""),
    );
    expect(await ask(host(), ["printf", "%s\u0001", ...words])).toBe(words.map(word => `${word}\u0001`).join(""));
  });

  test("gives an empty input to a step that has none", async () => {
    expect(await ask(host(), ["cat"])).toBe("");
  });

  test("hands the output of a step to a later one, as one word", async () => {
    const outputs = await host().script(
      {
        steps: [
          { name: "place", argv: ["printf", "%s\n\n", "/a  b/$x'\n*"] },
          { name: "use", argv: ["printf", "[%s]", { outputOf: "place" }, "end"] },
        ],
      },
      calm,
    );
    expect(outputs.get("use")?.stdout).toBe("[/a  b/$x'\n*][end]");
  });

  test("fails when it writes more than its limit", async () => {
    const steps = [{ name: "flood", argv: sh("head -c 70000 /dev/zero | tr '\\0' x") }] as const;
    expect((await failed(host().script({ steps }, calm))).failure).toBe("overflow");
    const whole = await host().script({ steps: [{ ...steps[0], maxBytes: 70_000 }] }, calm);
    expect(whole.get("flood")?.stdout.length).toBe(70_000);
  });

  test("reports a missing program and one without execute permission", async () => {
    const missing = await failed(ask(host(), ["no-such-program", "x"]));
    expect(missing.failure).toBe("missing");
    expect(missing.message).toStartWith("no-such-program: there is no such program");
    expect((await failed(ask(host(), ["/etc/passwd"]))).failure).toBe("denied");
  });

  test("ends at its time limit and with its call", async () => {
    const late = await failed(host().script({ steps: [{ name: "s", argv: ["sleep", "60"] }], timeoutMs: 300 }, calm));
    expect(late.failure).toBe("timeout");
    const call = new AbortController();
    const work = failed(ask(host(), ["sleep", "60"], call.signal));
    // In the middle of the program.
    later(() => call.abort(), 50);
    expect((await work).failure).toBe("cancelled");
    expect((await failed(ask(host(), ["true"], AbortSignal.abort()))).failure).toBe("cancelled");
  });

  test("masks secrets in a program's error messages", async () => {
    const step = { name: "tell", argv: sh("read x; echo $x; echo $x >&2"), stdin: "hunter2\n", secret: ["hunter2"] };
    const outputs = await host().script({ steps: [step] }, calm);
    expect(outputs.get("tell")).toEqual({ stdout: "hunter2\n", stderr: "***\n", exitCode: 0 });
  });

  test("runs one command with an environment", async () => {
    const { stdout } = await host().runner.run({ argv: sh("echo $A"), env: { A: "b c" } }, calm);
    expect(stdout).toBe("b c\n");
  });

  test("has exclusive use of a tool while it holds it", async () => {
    let inside = 0;
    const path = join(folder, "turns");
    const work = async (): Promise<void> => {
      expect(++inside).toBe(1);
      await ask(host(), sh('echo x >> "$1"', path));
      inside--;
    };
    await Promise.all(Array.from({ length: 10 }, () => host().exclusive("tool", calm, work)));
    expect((await readFile(path, "utf8")).length % 20).toBe(0);
  });
});

test("scripts that wait take turns by connection", async () => {
  const busy = opened.hosts.lease(sshd.settings()).value;
  const quiet = opened.hosts.lease(sshd.settings()).value;
  let done = 0;
  const many = Array.from({ length: 40 }, () => ask(busy, ["sleep", "0.05"]).then(() => done++));
  await ask(quiet, ["true"]);
  expect(done).toBeLessThan(20);
  await Promise.all(many);
});

test("reads run while changes of four connections occupy all their slots, and changes run concurrently", async () => {
  const sshd = await startSshd();
  const { hosts: opened } = hosts();
  const gate = join(sshd.folder, "gate");
  try {
    const members = Array.from({ length: 4 }, () => opened.lease(sshd.settings()).value);
    const wait = 'echo >>"$1.begun"; while [ ! -e "$1" ]; do sleep 0.02; done';
    const changes = members.flatMap(member => [1, 2, 3].map(() => ask(member, ["sh", "-c", wait, "sh", gate])));
    const begun = async () => (await readFile(`${gate}.begun`, "utf8").catch(() => "")).length;
    await until("four changes run", async () => (await begun()) === 4);
    const steps = [{ name: "look", argv: ["echo", "here"], reads: true }] as const;
    const answers = await Promise.all(members.map(member => member.script({ steps }, calm)));
    expect(answers.map(outputs => outputs.get("look")?.stdout)).toEqual(members.map(() => "here\n"));
    expect(await begun()).toBe(4);
    await writeFile(gate, "");
    await Promise.all(changes);
    expect(await begun()).toBe(12);
  } finally {
    await writeFile(gate, "");
    await opened.close();
    await sshd.stop();
  }
}, 30_000);
