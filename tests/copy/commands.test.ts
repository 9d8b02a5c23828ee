import { describe, expect, test } from "bun:test";
import { type CopyCommand, readAnswer, readCommand, writeLine } from "../../lib/copies/protocol.ts";

const begin = {
  command: "begin",
  source: "v:a/pvc-1",
  name: "moved-1f0c-1",
  bytes: "21474836480",
  parameters: { connection: "b" },
};

describe("the protocol of the command socket", () => {
  test("a request survives writing and reading", () => {
    const read = readCommand(JSON.stringify(begin));
    expect(read).toEqual({ ...begin, bytes: 21474836480n, capabilities: [], mutable: {} } as CopyCommand);
    expect(readCommand(writeLine(read))).toEqual(read);
  });

  test("a size above 2^53 is exact", () => {
    const line = writeLine({ kind: "progress", text: "x", done: 2n ** 60n + 1n, total: 2n ** 61n, rate: 0n });
    expect(readAnswer(line)).toMatchObject({ done: 2n ** 60n + 1n });
  });

  test.each([
    ["{", "not JSON"],
    ["[]", "Expected"],
    ['{"command":"erase"}', "command"],
    ['{"command":"finish"}', "target"],
    ['{"command":"finish","target":"v:b/x","force":true}', "force"],
    [JSON.stringify({ ...begin, bytes: 5 }), "bytes"],
    [JSON.stringify({ ...begin, bytes: "-5" }), "bytes"],
  ])("refuses %s", (line, why) => {
    expect(() => readCommand(line)).toThrow(why);
  });
});
