import { afterEach, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { datasetLock, onlyIf, whileStill } from "../../../../lib/drivers/zfs/cli/lock.ts";

// The text itself, by the shells of hosts: dash and bash where they are sh, and busybox where it is installed (Debian's has no flock of its own).

const shells: readonly (readonly [name: string, argv: readonly string[]])[] = [
  ["dash", ["dash"]],
  ["bash", ["bash", "--posix"]],
  ["busybox", ["busybox", "sh"]],
];

const made: string[] = [];
afterEach(() => {
  for (const each of made.splice(0)) rmSync(each, { recursive: true, force: true });
});

/** A host whose `zfs get` is `get`; each other call of zfs leaves its words, one a line. */
function hostWith(get: string) {
  const folder = mkdtempSync(join(tmpdir(), "csimux-only-if-"));
  made.push(folder);
  const [zfs, calls] = [join(folder, "zfs"), join(folder, "calls")];
  writeFileSync(
    zfs,
    `#!/bin/sh\n[ "$1" != get ] || { shift; ${get}; }\nfor word; do printf '%s\\n--\\n' "$word"; done >'${calls}'\n`,
  );
  chmodSync(zfs, 0o755);
  return { folder, zfs, calls: () => (existsSync(calls) ? readFileSync(calls, "utf8") : "") };
}

const prints = (...rows: readonly string[]): string => `printf '%b\\n' '${rows.join("\\n")}'; exit`;

const envOf = ({ folder }: { readonly folder: string }) => ({ PATH: `${folder}:/usr/sbin:/usr/bin:/sbin:/bin` });

/** Runs a change of a dataset with this guid in a shell. */
function change(shell: readonly string[], host: ReturnType<typeof hostWith>, dataset: string, guid = "4711") {
  const words = onlyIf({ zfs: [host.zfs] }, dataset, guid, "csimux:done", [host.zfs, "destroy", dataset]);
  const { exitCode, stderr } = Bun.spawnSync([...shell, ...words.slice(1)], { env: envOf(host), timeout: 20_000 });
  return { exitCode, stderr: stderr.toString(), calls: host.calls() };
}

for (const [name, shell] of shells)
  describe.skipIf(Bun.which(name) === null)(`in ${name}, a change under the lock of a dataset`, () => {
    test.each([
      ["the property is absent", prints("4711\\t-", "-\\t-"), true],
      ["the property is inherited", prints("4711\\t-", "true\\tinherited from tank/a"), true],
      ["the property has another value", prints("4711\\t-", "false\\tlocal"), true],
      ["the property is set", prints("4711\\t-", "true\\tlocal"), false],
      ["the property came with a stream", prints("4711\\t-", "true\\treceived"), false],
      ["the guid is another one", prints("4712\\t-", "-\\t-"), false],
      ["the guid only begins the same", prints("47110\\t-", "-\\t-"), false],
      ["the guid is missing", prints("-\\t-", "-\\t-"), false],
      ["zfs prints nothing", "exit", false],
      ["zfs prints half of it", "printf 4711; exit", false],
      ["zfs prints the guid alone", prints("4711\\t-"), false],
      ["zfs fails", "echo 'cannot open: I/O error' >&2; exit 1", false],
      ["zfs prints all and fails", `printf '4711\\t-\\n-\\t-\\n'; exit 1`, false],
      ["zfs or sudo also warns", `echo warning >&2; ${prints("4711\\t-", "-\\t-")}`, true],
      ["zfs is killed", "kill -9 $$", false],
    ])("where %s", (_what, get, runs) => {
      const { exitCode, calls, stderr } = change(shell, hostWith(get), "tank/a");
      expect([exitCode === 0, calls]).toEqual(runs ? [true, "destroy\n--\ntank/a\n--\n"] : [false, ""]);
      if (!runs && !/fails|killed/.test(_what)) expect(stderr).toContain("tank/a was changed by another call");
    });

    test.each([
      "tank/a b",
      "tank/it's",
      'tank/"a"',
      "tank/$(touch x)",
      "tank/a;b",
      "tank/`a`",
      "tank/a\nb",
      "tank/*",
      "-r",
      "tank/a\\",
    ])("asks and changes exactly %j", dataset => {
      const asked = `printf '%s\\n--\\n' "$@" >"$0.asked"; ${prints("4711\\t-", "-\\t-")}`;
      const host = hostWith(asked);
      expect(change(shell, host, dataset)).toMatchObject({ exitCode: 0, calls: `destroy\n--\n${dataset}\n--\n` });
      expect(readFileSync(`${host.zfs}.asked`, "utf8")).toEndWith(`\n--\n${dataset}\n--\n`);
    });

    test.skipIf(Bun.which("flock") === null)("keeps the lock while it runs, also where the shell becomes it", () => {
      const host = hostWith(prints("4711\\t-", "-\\t-"));
      const lock = `/run/lock/csimux-${datasetLock("tank/a")}`;
      const calls = readFileSync(host.zfs, "utf8");
      writeFileSync(host.zfs, calls.replace("for word", `flock -n '${lock}' true && set -- free; for word`));
      expect(change(shell, host, "tank/a")).toMatchObject({ exitCode: 0, calls: "destroy\n--\ntank/a\n--\n" });
    });

    const value = JSON.stringify({ claim: "shop/it's", holder: "a*b$(x)" });

    test.each([
      ["it is the same", `${value}\tlocal`, true],
      ["it came with a stream, which csimux may have restored", `${value}\treceived`, true],
      ["it is inherited", `${value}\tinherited from tank`, false],
      ["it is longer", `${value}x\tlocal`, false],
      ["it is another one", '{"claim":"shop/other"}\tlocal', false],
      ["it is absent", "-\t-", false],
    ])("of a value that has to be there still: %s", (_, answer, runs) => {
      const host = hostWith(
        `case "$*" in *tenure*) cat "$0.answer";; *) printf '4711\\t-\\nfilesystem\\t-\\n';; esac; exit`,
      );
      writeFileSync(`${host.zfs}.answer`, `${answer}\n`);
      const still = { property: "csimux:tenure", value, proved: false };
      const argv = whileStill({ zfs: [host.zfs] }, "tank/a", "4711", still, [
        host.zfs,
        "set",
        `csimux:tenure=${value}`,
      ]);
      const { exitCode, stderr } = Bun.spawnSync([...shell, ...argv.slice(1).map(String)], {
        env: envOf(host),
        timeout: 20_000,
      });
      expect([exitCode === 0, host.calls()]).toEqual([runs, runs ? `set\n--\ncsimux:tenure=${value}\n--\n` : ""]);
      if (!runs) expect(stderr.toString()).toContain("tank/a was changed by another call");
    });

    test.skipIf(name === "busybox")("that must be proved is refused where the host has no flock(1)", () => {
      const host = hostWith(
        `case "$*" in *tenure*) printf 'x\\tlocal\\n';; *) printf '4711\\t-\\n-\\t-\\n';; esac; exit`,
      );
      const run = (proved: boolean) => {
        const still = { property: "csimux:tenure", value: "x", proved };
        const argv = whileStill({ zfs: [host.zfs] }, "tank/a", "4711", still, [host.zfs, "set"]);
        // Only what the text itself needs.
        const env = { PATH: host.folder };
        const [program = "", ...words] = shell;
        return Bun.spawnSync([Bun.which(program) ?? "", ...words, ...argv.slice(1).map(String)], {
          env,
          timeout: 20_000,
        });
      };
      symlinkSync(Bun.which("cat") ?? "", join(host.folder, "cat"));
      const refused = run(true);
      expect([refused.exitCode, refused.stderr.toString()]).toEqual([1, expect.stringContaining("no flock(1)")]);
      expect(host.calls()).toBe("");
      expect(run(false).exitCode).toBe(0);
      expect(host.calls()).toBe("set\n--\n");
    });

    test("does not happen while zfs hangs, and the lock is free after that", () => {
      const host = hostWith("exec sleep 60");
      const words = onlyIf({ zfs: [host.zfs] }, "tank/hangs", "4711", "csimux:done", [
        host.zfs,
        "destroy",
        "tank/hangs",
      ]);
      const group = ["timeout", "-k", "1", "0.5", ...shell, ...words.slice(1)];
      expect(Bun.spawnSync(group, { env: envOf(host) }).exitCode).toBe(124);
      expect(host.calls()).toBe("");
      const next = hostWith(prints("4711\\t-", "-\\t-"));
      expect(change(shell, next, "tank/hangs")).toMatchObject({ exitCode: 0, calls: "destroy\n--\ntank/hangs\n--\n" });
    });

    test("ends as what it runs, and leaves its input to that", () => {
      const host = hostWith(`cat; ${prints("4711\\t-", "-\\t-")}`);
      const words = onlyIf({ zfs: [host.zfs] }, "tank/a", "4711", "csimux:done", ["sh", "-c", "cat; exit 7"]);
      const { exitCode, stdout } = Bun.spawnSync([...shell, ...words.slice(1)], {
        env: envOf(host),
        stdin: Buffer.from("content"),
      });
      expect([exitCode, stdout.toString()]).toEqual([7, "content"]);
    });
  });
