import { expect, test } from "bun:test";
import { sentBytes } from "../../lib/copies/stream-pipe.ts";
import { faultOf, saysAbsent, wordsOf } from "../../lib/copies/zfs-send.ts";

// The texts are those of OpenZFS 2.4.99, lib/libzfs/libzfs_sendrecv.c and libzfs_util.c.
test.each<[string, string | undefined]>([
  ["cannot receive new filesystem stream: pool must be upgraded to receive this stream.", "unsupported"],
  ["cannot receive: stream has unsupported feature, feature flags = 50004 (unknown flags = 40000)", "unsupported"],
  ["cannot receive incremental stream: kernel modules must be upgraded to receive this stream.", "unsupported"],
  ["cannot resume send: 'tank/a@m' used in the initial send no longer exists", "token"],
  ["cannot resume send: 'tank/a@m' is no longer the same snapshot used in the initial send", "token"],
  ["cannot resume send: incremental source 0xabc0 no longer exists", "token"],
  ["internal error: resume token is corrupt", "token"],
  ["cannot resume send: signal received", undefined],
  ["warning: cannot send 'tank/a@m': Broken pipe", undefined],
  ["cannot receive new filesystem stream: out of space", "full"],
  ["cannot receive new filesystem stream: destination tank/b space quota exceeded.", "full"],
  ["cannot receive new filesystem stream: inherited key must be loaded", "refused"],
  ["cannot receive new filesystem stream: permission denied", "refused"],
  ["sudo: a password is required", "refused"],
  ["sh: 1: exec: zfs: not found", "refused"],
  ["zsh:1: command not found: zfs", "refused"],
  ["cannot receive incremental stream: most recent snapshot of tank/b does not\nmatch incremental source", "refused"],
  ["cannot receive resume stream: checksum mismatch or incomplete stream.", undefined],
  ["cannot receive resume stream: dataset is busy", undefined],
  ["", undefined],
])("%p is the fault %p", (words, fault) => {
  expect(faultOf(words)?.kind).toBe(fault as never);
});

test("a snapshot is absent only if its own name is said to be", () => {
  const words = "cannot open 'tank/a@m': dataset does not exist\n";
  expect([saysAbsent(words, "tank/a@m"), saysAbsent(words, "tank/a"), saysAbsent(words, "tank/a@")]).toEqual([
    true,
    false,
    false,
  ]);
});

const verbose = [
  "resume token contents:",
  "nvlist version: 0",
  "\tobject = 0x80",
  "full\ttank/a@m\t123456",
  "size\t123456",
  "12:00:01\t1048576\ttank/a@m",
  "warning: cannot send 'tank/a@m': I/O error",
  "12:00:02\t2097152\ttank/a@m",
  "",
].join("\n");

test("a message has neither the progress nor the token of what has arrived", () => {
  expect(wordsOf(verbose)).toBe("warning: cannot send 'tank/a@m': I/O error");
  const cut = [
    "cannot receive resume stream: checksum mismatch or incomplete stream.",
    "Partially received snapshot is saved.",
    "A resuming stream can be generated on the sending system by running:",
    "    zfs send -t 1-c740b4779-a0-789c63",
  ];
  expect(wordsOf(cut.join("\n"))).toBe(`${cut[0]} ${cut[1]}`);
  expect(wordsOf("x".repeat(5000)).length).toBe(300);
});

test("the bytes so far are found wherever the text is cut", () => {
  for (let size = 1; size < verbose.length; size++) {
    const seen: bigint[] = [];
    const listen = sentBytes(bytes => seen.push(bytes));
    for (let at = 0; at < verbose.length; at += size) listen(Buffer.from(verbose.slice(at, at + size)));
    expect(seen.at(-1)).toBe(2097152n);
    expect(seen.every(each => each === 1048576n || each === 2097152n)).toBe(true);
  }
});
