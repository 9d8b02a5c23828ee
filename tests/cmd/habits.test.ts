import { describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { humanLine, jsonLine, leveledLog } from "../../lib/core/log.ts";
import { build } from "../../scripts/build.ts";

const executable = await build();

/** A command that ends by itself. */
const ended = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  spawnSync(executable, args, { timeout: 20_000, encoding: "utf8", env: { PATH: process.env["PATH"] ?? "", ...env } });

describe("one habit on every command line", () => {
  test.each([
    [["validate", "-o", "json", "--list-rules"], '"rules"'],
    [["validate", "--format", "json", "--list-rules"], '"rules"'],
    [["id", "decode", "v:a/b", "-o", "json"], '{"kind":"volume","connection":"a","id":"b"}'],
    [["id", "encode", "volume", "a", "b", "-o", "json"], '{"kind":"volume","id":"v:a/b"}'],
    [["id", "encode", "node", "--node-name", "w1", "--output", "json"], '{"kind":"node","id":"n=w1"}'],
  ])("%p prints JSON", (args, text) => {
    const { stdout, status } = ended(args);
    expect(stdout).toContain(text);
    expect(status).toBe(0);
  });

  test.each([
    [
      "serve",
      ["unix:///csi/csi.sock", "csimux.storage", "controller,node", "1.13.0", "info", "0600", "/var/lib/csimux/<name>"],
    ],
    ["validate", ['"text"', '"stdin"']],
    ["topology", ['"text"']],
    ["probe", ['"10"']],
  ])("help of %s shows the defaults", (command, words) => {
    const { stdout } = ended([command, "--help"]);
    const text = stdout.replace(/\s+/g, " ");
    for (const word of words) expect(text).toContain(word);
  });

  test("each subcommand of the help is defined under its own name, and fits a terminal of 80 columns", () => {
    const [, list = ""] = ended(["--help"]).stdout.split("Commands:");
    const names = [...list.matchAll(/^ {2}([a-z]+) /gm)]
      .flatMap(([, name]) => name ?? [])
      .filter(name => name !== "help");
    expect(names).toContain("serve");
    for (const name of names) {
      const { stdout } = ended([name, "--help"]);
      expect(stdout).toStartWith(`Usage: csimux ${name} `);
      // Only a line of words too long for it may be longer than 80 characters.
      expect(stdout.split("\n").filter(line => line.length > 80 && / .* /.test(line.slice(46)))).toEqual([]);
    }
  });

  test.each([
    [["--confg", "x"], "unknown flag --confg; did you mean --config?"],
    [["serve", "--endpiont=unix:///x"], "unknown flag --endpiont; did you mean --endpoint?"],
    [["serve", "--colour"], "unknown flag --colour\n"],
    [["validate", "--confg", "x"], "unknown option '--confg'"],
    [["topology", "--node", "x"], "unknown option '--node'"],
    [["id", "decode", "v:a/b", "--ouput", "json"], "unknown option '--ouput'"],
  ])("%p is answered by the flag that does not exist", (args, text) => {
    const { stderr, status } = ended(args);
    expect(stderr).toContain(text);
    expect(status).toBe(2);
  });

  test.each([
    [["id", "encode", "node", "--node-name", "bad name"], '--node-name "bad name" is not a DNS name'],
    [["id", "encode", "node", "--node-name", "w1", "--iqn", "w1"], '--iqn "w1" is not an initiator name'],
    [["id", "encode", "node", "--node-name", "w1", "--nqn", "w1"], '--nqn "w1" is not an NQN'],
    [["id", "encode", "node", "--node-name", "w1", "--hostname", "a/b"], '--hostname "a/b" is not a host name'],
    [["id", "decode", "v:fast/../../etc"], '"v:fast/../../etc" is not a volume or snapshot handle'],
    [["id", "decode", "v:fast/.."], "is not a volume or snapshot handle"],
  ])("%p is exit code 1 with the reason", (args, text) => {
    const { stderr, status } = ended(args);
    expect(stderr).toContain(text);
    expect(status).toBe(1);
  });

  test("an id may hold dots and slashes that lead nowhere else", () => {
    for (const id of ["v:a/b..c", "v:a/tank/x.y", "s:a/b@c"]) expect(ended(["id", "decode", id]).status).toBe(0);
  });
});

describe("csimux probe says why in words of its own", () => {
  test("where there is no socket", () => {
    const { stderr, status } = ended(["probe", "--endpoint", "unix:///no/such.sock"]);
    expect(stderr).toBe(
      "csimux: unix:///no/such.sock does not exist; is csimux running, and is this its --endpoint?\n",
    );
    expect(status).toBe(1);
  });

  test("without a listening process", () => {
    const { stderr } = ended(["probe", "--endpoint", "tcp://127.0.0.1:1"]);
    expect(stderr).toBe("csimux: tcp://127.0.0.1:1 exists, but no process listens on it; has csimux stopped?\n");
  });
});

describe("csimux completion", () => {
  const bash = (line: string): readonly string[] => {
    const script = `${ended(["completion", "bash"]).stdout}
COMP_WORDS=(${line}); COMP_CWORD=$(( \${#COMP_WORDS[@]} - 1 )); _csimux; printf '%s\\n' "\${COMPREPLY[@]}"`;
    return spawnSync("bash", ["-c", script], { encoding: "utf8", timeout: 20_000 })
      .stdout.split("\n")
      .filter(each => each !== "");
  };

  test("offers commands, commands of commands, and their flags in bash", () => {
    expect(bash("csimux ''")).toEqual(
      expect.arrayContaining(["serve", "validate", "topology", "id", "probe", "completion"]),
    );
    expect(bash("csimux id ''")).toEqual(expect.arrayContaining(["encode", "decode"]));
    expect(bash("csimux validate --o")).toEqual(["--output", "--online"]);
    expect(bash("csimux id decode --leg")).toEqual(["--legacy-connection"]);
    expect(bash("csimux serve --state")).toEqual(["--state-dir"]);
  });

  test.each(["bash", "zsh", "fish"])("is a script for %s that its shell can read", shell => {
    const { stdout, status } = ended(["completion", shell]);
    expect(status).toBe(0);
    expect(stdout).toContain("csimux");
    expect(stdout).toContain("legacy-connection");
    const check = spawnSync(shell, ["-n"], { input: stdout, encoding: "utf8", timeout: 20_000 });
    if (check.error === undefined) expect(check).toMatchObject({ status: 0, stderr: "" });
  });

  test("says which shells there are", () => {
    const { stderr, status } = ended(["completion", "tcsh"]);
    expect(stderr).toContain("bash, zsh, fish");
    expect(status).toBe(2);
  });
});

describe("log lines", () => {
  const line = (format: typeof jsonLine, fields: object): string => {
    let text = "";
    const log = leveledLog("debug", each => {
      text = format(each);
    });
    log.debug("called", fields);
    return text;
  };

  test("leave out what is not there", () => {
    expect(line(humanLine, { cause: undefined, a: 1 })).toEndWith("called a=1");
    expect(JSON.parse(line(jsonLine, { cause: undefined, a: 1 }))).not.toHaveProperty("cause");
  });

  test("of a request with a hundred thousand parameters stay short, and JSON", () => {
    const parameters = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`key${index}`, "value"]));
    expect(line(humanLine, { parameters }).length).toBeLessThan(20_000);
    const text = line(jsonLine, { parameters });
    expect(text.length).toBeLessThan(20_000);
    expect(JSON.parse(text)).toMatchObject({ level: "debug", message: "called", cut: expect.any(Number) });
  });
});
