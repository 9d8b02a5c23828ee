import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { locked } from "../../../lib/drivers/zfs/cli/lock.ts";
import { namedArgv, options, permissionSteps, poolStep } from "../../../lib/drivers/zfs/cli/steps.ts";
import { deviceStep } from "../../../lib/drivers/zfs/targets/device.ts";
import { type LioSettings, targetStep } from "../../../lib/drivers/zfs/targets/host-targets.ts";
import { rpcStep } from "../../../lib/drivers/zfs/targets/spdk-rpc.ts";
import { piped, type Step } from "../../../lib/io/script.ts";
import { clockText, scriptText } from "../../../lib/io/ssh/frame.ts";
import { usersStep } from "../../fakes/zfs/nfsd.ts";

// Whatever builds a command is run as the host runs it, through a real shell, with words that would do harm in one. The programs
// only write down what they were called with.

let folder = "";
let bin = "";
const tools = ["zfs", "zpool", "sudo", "chown", "chmod", "setfacl", "python3", "canary"];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "csimux-hostile-"));
  bin = join(folder, "bin");
  mkdirSync(bin);
  for (const tool of tools) {
    const path = join(bin, tool);
    // Arguments end with a NUL, calls with an empty one; one write, since both ends of a pipe write at once. "look" answers what zfs
    // says of a mounted file system.
    const text = `#!/bin/sh
printf '%s\\0' ${tool} "$@" '' >>'${folder}/calls'
case "$*" in look*) cat '${folder}/rows';; esac
`;
    writeFileSync(path, text);
    chmodSync(path, 0o755);
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs steps as a host behind ssh does; what the programs were called with. */
function called(...steps: readonly [Step, ...Step[]]): readonly (readonly string[])[] {
  rmSync(join(folder, "calls"), { force: true });
  const input = `${clockText}\n${scriptText({ steps }, "tag", 9_999_999_999)}`;
  execFileSync("sh", { input, cwd: folder, env: { PATH: `${bin}:/usr/bin:/bin` }, stdio: ["pipe", "pipe", "pipe"] });
  const path = join(folder, "calls");
  const text = existsSync(path) ? readFileSync(path, "utf8") : "";
  return text
    .split("\0\0")
    .filter(each => each !== "")
    .map(each => each.split("\0"));
}

const words = [
  "$(canary)",
  "`canary`",
  "a; canary",
  "a\ncanary",
  "a && canary",
  "a|canary",
  "'; canary; '",
  '"; canary; "',
  "\\'; canary #",
  "a' $(canary) 'b",
  "${IFS}canary",
  "* ? [a-z]",
  "~root",
  "-n",
  "--help",
  "!canary",
  "a\tb  c",
  "x>y<z&",
  "ü€😀",
  " ",
];

/** Every word reached its program whole, and nothing else was called. */
const harmless = (calls: readonly (readonly string[])[], program: string, word: string): void => {
  expect(calls.map(([name]) => name)).not.toContain("canary");
  expect(calls.filter(([name]) => name === program).flat()).toContain(word);
};

describe.each(words)("the word %j", word => {
  const lio: LioSettings = {
    ...{ kind: "lio", zfs: ["zfs"], privileged: ["sudo"], root: word, lock: word, saved: [word] },
    ...{ blocks: word, udev: word, group: { [word]: word }, auth: { userid: word }, block: { [word]: word } },
  };

  test("is one word of zfs as name, property and value", () => {
    const step = { name: "make", argv: ["zfs", "create", ...options({ [word]: word }), word] } as const;
    const calls = called(step);
    expect(calls).toEqual([["zfs", "create", "-o", `${word}=${word}`, word]]);
  });

  test("is one word on both ends of a copy", () => {
    const calls = called({ name: "copy", argv: piped(["zfs", "send", word], ["sudo", "-n", "zfs", "receive", word]) });
    harmless(calls, "zfs", word);
    harmless(calls, "sudo", word);
  });

  test("is one word where snapshots of a name are listed", () => {
    const words = { zfs: ["sudo", "-n", "zfs"], zpool: "zpool", privileged: [] } as const;
    harmless(called({ name: "named", argv: namedArgv(words, word, word, ["snapshot"]) }), "sudo", word);
  });

  test("is one word where pools and targets are read, and where something is destroyed under a lock", () => {
    const words = { zfs: ["zfs"], zpool: "zpool", privileged: [] } as const;
    const look = (step: Step): Step => ({ ...step, onFailure: "go-on" });
    const calls = called(
      poolStep(words, [word]),
      poolStep({ ...words, zpool: word }, [word]),
      look(targetStep("look", { ...lio, privileged: [] }, { targets: [{ name: word }] })),
      look(targetStep("look", { ...lio, privileged: ["sudo", "-n", word] }, { targets: [] })),
      { name: "destroy", argv: ["zfs", "destroy", word] },
      look({ name: "alone", argv: ["env", ...locked(`/no/${word}`, ["zfs", "destroy", word])] }),
    );
    harmless(calls, "zpool", word);
    harmless(calls, "sudo", word);
    expect(calls.filter(([name]) => name === "zfs")).toEqual([
      ["zfs", "destroy", word],
      ["zfs", "destroy", word],
    ]);
  });

  test("is one word as owner, mode, list and mount point", () => {
    // A line break or a tab is in no name of ZFS and in no row that it prints.
    const place = `/${word.replace(/[\n\t]/g, "")}`;
    const name = word.replace(/[\n\t]/g, "");
    writeFileSync(join(folder, "rows"), `${name}\tmounted\tyes\t-\n${name}\tmountpoint\t${place}\tdefault\n`);
    const permissions = { mode: word, user: word, group: word, acls: [["-m", word]], aclsProgram: "setfacl" };
    const cli = { zfs: ["zfs"], zpool: "zpool", privileged: [] } as const;
    const steps = permissionSteps(cli, name, permissions, undefined);
    const calls = called({ name: "read", argv: ["zfs", "look"] }, ...steps);
    expect(calls.slice(1)).toEqual([
      ["chown", `${word}:${word}`, place],
      ["chmod", word, place],
      ["setfacl", "-m", word, place],
    ]);
  });

  test("is one word to the tools of targets and exports, or their input", () => {
    const look = (step: Step): Step => ({ ...step, onFailure: "go-on" });
    // A device that never comes would be waited for.
    const [program, ...rest] = deviceStep(word).argv;
    const calls = called(
      look({ name: "device", argv: ["timeout", "0.01", program, ...rest] }),
      look(usersStep(word, ["sudo", "-n"])),
      look(targetStep("make", lio, { target: { name: word, backstore: word, device: word } })),
      look(rpcStep("rpc", { privileged: [], socket: word }, [{ method: word }], { file: word, own: word })),
    );
    expect(calls.map(([name]) => name)).not.toContain("canary");
    // All of the request is input.
    const loader = "import json,sys;exec(json.loads(sys.stdin.readline()))";
    expect(calls).toContainEqual(["sudo", "python3", "-I", "-S", "-c", loader]);
  });
});
