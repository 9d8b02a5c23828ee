import { describe, expect, test } from "bun:test";
import { namesInAcl, refuseAcls } from "../../../lib/copies/rsync/nfs4-acl.ts";
import { CommandError, type CommandRunner } from "../../../lib/io/runner.ts";
import { callWith } from "../../contract/rig.ts";
import { codeOf } from "../../mux/world.ts";

/** An ACL as Linux hands it out (fs/nfs/nfs4xdr.c; RFC 8881 section 6.2.1): a count, then type, flags, mask and name of each entry. */
function acl(...names: readonly string[]): Buffer {
  const number = (value: number) => {
    const four = Buffer.alloc(4);
    four.writeUInt32BE(value);
    return four;
  };
  const entry = (name: string) => {
    const padded = Buffer.alloc(Math.ceil(Buffer.byteLength(name) / 4) * 4);
    padded.write(name);
    return [number(0), number(0), number(0x1601bf), number(Buffer.byteLength(name)), padded];
  };
  return Buffer.concat([number(names.length), ...names.flatMap(entry)]);
}

const ofMode = ["OWNER@", "GROUP@", "EVERYONE@"];

describe("the names in an NFSv4 ACL", () => {
  test.each([[[]], [ofMode], [["OWNER@", "alice@example.org", "1001"]]])("%p", names => {
    expect(namesInAcl(acl(...names))).toEqual(names);
  });

  test.each([0, 3, 10, 21])("are unknown if it ends after %p bytes", bytes => {
    expect(namesInAcl(acl("OWNER@", "alice").subarray(0, bytes))).toBeUndefined();
  });
});

/** getfattr(1) of attr 2.5.1: a line with the file, and one with the attribute. */
const shown = (value: Buffer) => `# file: /tree\nsystem.nfs4_acl=0x${value.toString("hex")}\n\n`;

const runner = (stdout: string, exitCode = 0, stderr = ""): CommandRunner => ({
  where: "test",
  run: async () => ({ stdout, stderr, exitCode }),
});

const failing = (why: string) => runner("", 1, `/tree: system.nfs4_acl: ${why}\n`);

describe("a copy of files", () => {
  const refused = (given: CommandRunner) => codeOf(refuseAcls({ path: "/tree", runner: given }, "nas", callWith()));

  test.each([
    ["has no ACL", failing("No such attribute"), undefined],
    ["is where there are no such ACLs", failing("Operation not supported"), undefined],
    ["is on a server that does not answer now", failing("Input/output error"), "unavailable"],
    ["has an ACL that may not be read", failing("Permission denied"), "unavailable"],
    ["is not there", runner("", 1, "getfattr: /tree: No such file or directory\n"), "unavailable"],
    ["is read by a getfattr that ends without a word", runner("", 1), "unavailable"],
    ["has the ACL of its mode", runner(shown(acl(...ofMode))), undefined],
    ["has an entry for a user", runner(shown(acl(...ofMode, "alice@example.org"))), "failed-precondition"],
    ["has an ACL that cannot be read", runner(shown(Buffer.from("00000001ff", "hex"))), "failed-precondition"],
  ] as const)("whose top folder %s", async (_, given, code) => {
    expect(await refused(given)).toBe(code);
  });

  test("is made without a check where getfattr is not installed", async () => {
    const run = async () => {
      throw new CommandError("test", "getfattr", "missing", "there is no such program");
    };
    expect(await refused({ where: "test", run })).toBeUndefined();
  });
});
