import { describe, expect, test } from "bun:test";
import { type CopyCommand, readAnswer, readCommand, writeLine } from "../../lib/copies/protocol.ts";
import { readRecord, writeRecord } from "../../lib/copies/record.ts";

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

  test("no parameter is lost on the way, whatever its name", () => {
    const parameters = JSON.parse('{"connection":"b","prototype":"1","constructor":"2","__proto__":"3"}');
    const { parameters: read } = readCommand(JSON.stringify({ ...begin, parameters })) as typeof begin;
    expect(Object.entries(read)).toEqual(Object.entries(parameters));
    expect(() => readCommand(JSON.stringify({ ...begin, parameters: { connection: 1 } }))).toThrow("texts");
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

test("a record has the keys and methods of version 1 on its storage, which an older csimux has written there", () => {
  const moment = { name: "p/v@1", proof: "7", bytes: "1", toSend: "2", stable: true, ways: ["stream", "files"] };
  const traits = { encrypted: false, blockBytes: "0", fixed: {} };
  const kept = {
    ...{
      version: 1,
      origin: { kind: "volume", handle: "v:a/v" },
      name: "n",
      role: "move",
      way: "stream-here",
      basic: true,
    },
    ...{
      round: 3,
      moment: { ...moment, traits },
      taken: 5,
      state: "ready",
      dirty: true,
      done: "1",
      total: "2",
      asked: 6,
    },
    ...{ owner: "one", beat: 9, fault: "", frozen: 2, move: { parameters: { way: "mine" }, mutable: {} } },
  };
  const record = readRecord(JSON.stringify(kept), "test");
  expect(record).toMatchObject({ method: "zfs-send-local", pass: 3, snapshotTime: 5, holder: "one", heartbeat: 9 });
  expect(record.snapshot.methods).toEqual(["zfs-send", "rsync"]);
  expect(JSON.parse(writeRecord(record))).toEqual(kept);
});
