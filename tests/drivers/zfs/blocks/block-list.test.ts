import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { blockLists } from "../../../../lib/drivers/zfs/blocks/block-list.ts";
import { ZfsError } from "../../../../lib/drivers/zfs/zfs.ts";
import { until } from "../../../csi/rig.ts";
import {
  begin,
  byReference,
  dump,
  embedded,
  end,
  freed,
  objects,
  summary,
  written,
} from "../../../fakes/zfs/zstream.ts";
import { block, programs, size } from "./programs.ts";

const at = (number: number): bigint => BigInt(number) * block;
const one = (number: number): string => written(at(number), block);

/** The list of a snapshot, or of what was changed since `base`, as pairs of block numbers and counts of blocks. */
async function listed(
  texts: Parameters<typeof programs>[0],
  base?: string,
  from = 0n,
): Promise<readonly (readonly [number, number])[]> {
  const { lists } = programs(texts);
  const ranges: (readonly [number, number])[] = [];
  const wanted = { snapshot: "tank/v@b", base, size, block, from };
  for await (const some of lists(wanted, AbortSignal.timeout(30_000)))
    for (const { offset, bytes } of some) ranges.push([Number(offset / block), Number(bytes / block)]);
  return ranges;
}

/** The failure of a list. */
const failureOf = async (texts: Parameters<typeof programs>[0]) => {
  const error: unknown = await listed(texts).catch((thrown: unknown) => thrown);
  return error instanceof ZfsError ? [error.failure, error.message] : error;
};

describe("the blocks of a snapshot are", () => {
  const whole = (...records: readonly string[]) => ({ whole: dump(...objects(at(20)), ...records) });
  test.each([
    ["none of an empty zvol", whole(), []],
    [
      "those that were written, adjacent ones joined",
      whole(one(0), one(1), one(2), one(5), one(19)),
      [
        [0, 3],
        [5, 1],
        [19, 1],
      ],
    ],
    [
      "not those that were freed",
      whole(one(1), freed(at(2), at(7)), one(9)),
      [
        [1, 1],
        [9, 1],
      ],
    ],
    ["those of embedded and deduplicated records", whole(embedded(at(3), block), byReference(at(4), at(2))), [[3, 3]]],
    ["not those of another object", whole(one(1), written(0n, 512n, 2)), [[1, 1]]],
    ["whole ones of records that are longer than a block", whole(written(at(8), at(8))), [[8, 8]]],
  ] as const)("%s", async (_, texts, ranges) => {
    expect(await listed(texts)).toEqual(ranges as never);
  });
});

describe("the changes since an earlier snapshot are", () => {
  const later = (lastOfBase: number, last: number, ...records: readonly string[]) => ({
    whole: dump(...objects(at(lastOfBase)), one(0)),
    later: dump(...objects(at(last)), ...records),
  });
  test.each([
    [
      "what was written and freed",
      later(64, 64, one(1), freed(at(2), at(3)), one(9)),
      [
        [1, 4],
        [9, 1],
      ],
    ],
    [
      "what was freed at the end, as far as there was data",
      later(30, 10, one(1)),
      [
        [1, 1],
        [10, 20],
      ],
    ],
    ["not what was zeroes behind the last block of both", later(10, 30, one(29), freed(at(40), at(4))), [[29, 1]]],
    [
      "the part of a freed range that had data",
      later(10, 30, freed(at(8), at(8)), one(29)),
      [
        [8, 2],
        [29, 1],
      ],
    ],
    [
      "all that was freed where the earlier end is unknown",
      { ...later(64, 10, one(1)), whole: "" },
      [
        [1, 1],
        [10, 54],
      ],
    ],
    ["not what is behind the size", later(64, 64, freed(at(60), at(100))), [[60, 4]]],
    ["nothing if there is none", later(64, 64), []],
  ] as const)("%s", async (_, texts, ranges) => {
    expect(await listed(texts, "tank/v@a")).toEqual(ranges as never);
  });

  test("asked of zfs send with large and compressed blocks as they are, and the earlier snapshot by its full name", async () => {
    const { lists, calls } = programs(later(64, 64, one(1)));
    const wanted = { snapshot: "tank/v@b", base: "tank/v@a", size, block, from: 0n };
    for await (const ranges of lists(wanted, AbortSignal.timeout(30_000))) expect(ranges.length).toBe(1);
    expect(calls()).toEqual(["send -L -c tank/v@a", "send -L -c -i tank/v@a tank/v@b"]);
  });
});

test("a list that begins in the middle of a range has the rest of that", async () => {
  const whole = dump(...objects(at(64)), one(0), one(1), written(at(4), at(8)), one(20));
  expect(await listed({ whole }, undefined, at(6))).toEqual([
    [6, 6],
    [20, 1],
  ]);
});

test("a long range arrives in parts while the stream is read", async () => {
  const records = Array.from({ length: 10_000 }, (_, number) => written(BigInt(number) * 64n, 64n));
  const { lists } = programs({ whole: dump(...objects(640_000n), ...records) });
  const wanted = { snapshot: "tank/v@b", base: undefined, size: 640_000n, block: 64n, from: 0n };
  const ranges = [];
  for await (const some of lists(wanted, AbortSignal.timeout(30_000))) ranges.push(...some);
  expect(ranges.length).toBe(3);
  expect(ranges.reduce((sum, { bytes }) => sum + bytes, 0n)).toBe(640_000n);
});

describe("a list is refused, and no end is reported, when", () => {
  test.each([
    [
      "the stream has no end",
      { whole: [begin, ...objects(at(4)), one(1)].join("\n") },
      "other",
      "the stream has no end",
    ],
    [
      "the stream ends before its summary",
      { whole: [begin, one(1), end].join("\n") },
      "other",
      "the stream has no end",
    ],
    [
      "zfs fails",
      { zfs: "echo \"cannot open 'tank/v@b': dataset does not exist\" >&2; exit 1" },
      "absent",
      "does not exist",
    ],
    [
      "zfs fails at the end",
      { zfs: `printf '%s\\n' '${[begin, end, summary].join("\n")}'; exit 1` },
      "other",
      "zfs ended with 1",
    ],
    ["zstream fails at the end", { zstream: "cat; exit 1" }, "other", "zfs ended with 1"],
    ["there is no zstream", { zstream: "absent" }, "unlisted", "neither zstream(8) nor zstreamdump(8)"],
    [
      "a record has other words",
      { whole: dump("WRITE object = 1 offset = 0 length = 16384") },
      "unlisted",
      "is not known: WRITE object = 1",
    ],
    [
      "a record is unknown",
      { whole: dump("WRITE_OTHER object = 1 offset = 0") },
      "unlisted",
      "is not known: WRITE_OTHER",
    ],
    [
      "a part was redacted",
      { whole: dump("REDACT object = 1 offset = 0 length = 16384") },
      "unlisted",
      "is not known: REDACT",
    ],
    ["offsets descend", { whole: dump(one(4), one(3)) }, "unlisted", "is not known: WRITE object = 1"],
    [
      "a record is not of whole blocks",
      { whole: dump(written(0n, 1000n)) },
      "incomplete",
      'cannot have the line "0 1000"',
    ],
    [
      "its checksum is wrong",
      { whole: dump("Expected checksum differs from checksum in stream.") },
      "unlisted",
      "Expected checksum",
    ],
  ] as const)("%s", async (_, texts, failure, message) => {
    expect(await failureOf(texts)).toEqual([failure, expect.stringContaining(message)]);
  });

  test("a program prints something else", async () => {
    const lines = [
      "begin",
      "begin\n5 5",
      "begin\n0 16384\n0 16384\nend",
      `begin\n${size} 16384\nend`,
      "begin\nend\n0 16384",
      "begin\n-1 5",
    ];
    for (const text of lines) {
      const host = {
        runner: { where: "host" },
        shared: <T>(_: string, make: () => T) => make(),
        child: async (_: unknown, { stdout }: { stdout: (chunk: Uint8Array) => Promise<void> }) => {
          const ended = stdout(Buffer.from(`${text}\n`)).then(() => ({ exitCode: 0, stdout: "", stderr: "" }));
          return { pid: 1, ended, end: async () => {} };
        },
      };
      const lists = blockLists(host as never, { zfs: ["zfs"], zpool: "zpool", privileged: [] });
      const read = async () => {
        const wanted = { snapshot: "a@b", base: undefined, size, block, from: 0n };
        for await (const _ of lists(wanted, AbortSignal.timeout(5_000)));
      };
      expect([text, await read().catch((error: ZfsError) => error.failure)]).toEqual([text, "incomplete"]);
    }
  });
});

describe("the programs of an endless stream end when", () => {
  /** Each write of a block is another range. */
  const endless = `cat '%bin/whole'; echo $$ >>'%bin/pid'
awk 'BEGIN { for (n = 0; ; n += 2) printf "${written(0n, 1n).replace("offset = 0", "offset = %.0f")}\\n", n }'`;
  const start = (more: Parameters<typeof programs>[0] = {}) => {
    const made = programs({ whole: [begin, ...objects(1n << 60n), ""].join("\n"), ...more });
    const text = endless.replaceAll("%bin", made.bin);
    writeFileSync(join(made.bin, "zfs"), `#!/bin/sh\n${text}\n`);
    const isRunning = () => {
      const pids = readFileSync(join(made.bin, "pid"), "utf8").trim().split("\n");
      return pids.some(pid => existsSync(`/proc/${pid}`));
    };
    return { ...made, isRunning };
  };
  const wanted = { snapshot: "tank/v@b", base: undefined, size: 1n << 60n, block: 1n, from: 0n };

  test("the iteration is left", async () => {
    const { lists, isRunning } = start();
    for await (const ranges of lists(wanted, new AbortController().signal)) {
      expect(ranges.length).toBeGreaterThan(0);
      break;
    }
    await until(() => !isRunning(), "the end of zfs");
  });

  test("the call is cancelled, also while the reader is slow", async () => {
    const { lists, isRunning } = start();
    const stop = new AbortController();
    const iteration = lists(wanted, stop.signal)[Symbol.asyncIterator]();
    await iteration.next();
    expect(isRunning()).toBe(true);
    stop.abort();
    const rest = async () => {
      while (!(await iteration.next()).done);
    };
    expect(await rest().catch(({ failure }: { failure: string }) => failure)).toBe("cancelled");
    await until(() => !isRunning(), "the end of zfs");
  });

  test("the client reads nothing for a while; a list that waits has its place then", async () => {
    const { lists, isRunning } = start({ patience: { clientMs: 1000 } });
    const begun = async () => {
      const iteration = lists(wanted, new AbortController().signal)[Symbol.asyncIterator]();
      await iteration.next();
      return iteration;
    };
    const from = performance.now();
    const [first, second, third] = [await begun(), await begun(), await begun()];
    expect(performance.now() - from).toBeGreaterThan(950);
    await until(() => !isRunning(), "the end of zfs");
    for (const each of [first, second, third]) {
      const rest = async () => {
        while (!(await each.next()).done);
      };
      await expect(rest()).rejects.toMatchObject({ code: "unavailable", message: expect.stringContaining("client") });
    }
  });

  test("the host writes nothing for a while", async () => {
    const { lists, isRunning } = start({ zstream: "exec sleep 1000", patience: { hostMs: 300 } });
    const first = lists(wanted, new AbortController().signal)[Symbol.asyncIterator]().next();
    await expect(first).rejects.toMatchObject({ code: "unavailable", message: expect.stringContaining("has written") });
    await until(() => !isRunning(), "the end of zfs");
  });
});
