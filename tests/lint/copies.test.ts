import { describe, expect, test } from "bun:test";
import { copyData, copyNotes } from "../../cmd/validate/copies.ts";
import { type CopyMethods, copyMethods } from "../../cmd/validate/copy-matrix.ts";
import { type CopyEnd, methodsBetween } from "../../lib/copies/methods.ts";
import { modules } from "../../lib/drivers/index.ts";
import { lint } from "../../lib/lint/lint.ts";
import type { LintInput } from "../../lib/lint/lint-input.ts";
import { connections } from "./cases/connections.ts";
import { check } from "./checking.ts";
import { type Example, main } from "./examples/files.ts";

const resolver = { env: () => undefined, file: () => undefined };

function deploymentOf(files: Example): LintInput {
  const inputs = Object.entries(files).map(
    ([file, text]) => ({ file, text, role: file === "proxy.yaml" ? "main" : "given" }) as const,
  );
  const [first] = lint(inputs, { modules, resolver, checkEnvironment: false }).deployments;
  if (!first) throw new Error("these files are not a deployment");
  return first;
}

const notes = (files: Example): readonly string[] => copyNotes(deploymentOf(files)).trimEnd().split("\n");

const file = (driver: string, more = ""): string => `${connections[driver] ?? ""}${more}`;
const nfs = (more = "") => file("nfs-client", more);
/** Behind ssh, on a machine. */
const zfs = (host: string, more = "", driver = "zfs-generic-nfs"): string =>
  file(driver, more).replace(/(sshConnection:\n(?: {2}.*\n)*? {2}host: ).*/, (_, before: string) => before + host);

describe("what validate says about copies", () => {
  test("groups what is equal, and says why there is no method", () => {
    const files = {
      "proxy.yaml": main(""),
      "a.yaml": zfs("one"),
      "b.yaml": zfs("one"),
      "c.yaml": zfs("two"),
      "disk.yaml": zfs("two", "", "zfs-generic-iscsi"),
      "f.yaml": nfs(),
      "g.yaml": nfs(),
      "syn.yaml": file("synology-iscsi"),
      "api.yaml": file("freenas-api-nfs"),
    };
    expect(notes(files)).toEqual([
      "copies between connections, as far as the files say:",
      "  from a, b",
      "    to each other: zfs-send-local",
      "    to c: zfs-send",
      '    not to disk: connection "a" holds file systems, connection "disk" block devices',
      '    not to f, g: no stream: "f" (driver nfs-client) cannot receive one; no files: this process cannot read volumes of "a"',
      "  from c",
      "    to a, b: zfs-send",
      '    not to disk: connection "c" holds file systems, connection "disk" block devices',
      '    not to f, g: no stream: "f" (driver nfs-client) cannot receive one; no files: this process cannot read volumes of "c"',
      "  from disk",
      '    not to a, b, c, f, g: connection "disk" holds block devices, connection "a" file systems',
      "  from f, g",
      "    to each other: rsync, or restore from snapshots in a repository",
      '    not to a, b, c: no stream: "f" (driver nfs-client) cannot send one; no files: this process cannot write into volumes of "a"',
      '    not to disk: connection "f" holds file systems, connection "disk" block devices',
      "  neither source nor target of copies: syn, api",
      "  zfs-send, zfs-send-local: zfs send and zfs receive, through csimux or within one machine",
      "  rsync: needs rsync and setpriv, which must be installed where csimux runs",
      "  restore: the tool of the repository restores a snapshot",
      "  encrypted content is refused where the new volume would not be encrypted",
      '  api could with "copies.sshConnection"',
    ]);
  });

  test("a machine alone has one method; all of one machine have the other", () => {
    expect(notes({ "a.yaml": zfs("one"), "b.yaml": zfs("two") })[2]).toBe("    to b: zfs-send");
    expect(notes({ "a.yaml": zfs("one"), "b.yaml": zfs("one") })[2]).toBe("    to each other: zfs-send-local");
  });

  test("names the lists that forbid it, whose encrypted content may become plain, and who is suspended", () => {
    const said = notes({
      "a.yaml": zfs("one", "copies: { to: { members: [b] }, allowPlain: true }\n"),
      "b.yaml": zfs("two", "suspended: true\n"),
      "c.yaml": zfs("three", "copies: { from: { selector: tier=fast } }\n"),
      "d.yaml": zfs("four", "proxy: { perDriver: { labels: { tier: fast } } }\n"),
    });
    expect(said.slice(1, 15)).toEqual([
      "  from a",
      "    to b: zfs-send",
      '    not to c, d: "copies.to" of "a" does not include "c"',
      "  from b",
      "    to a, d: zfs-send",
      '    not to c: "copies.from" of "c" does not include "b"',
      "  from c",
      "    to a, b, d: zfs-send",
      "  from d",
      "    to a, b, c: zfs-send",
      "  zfs-send, zfs-send-local: zfs send and zfs receive, through csimux or within one machine",
      "  encrypted content is refused where the new volume would not be encrypted",
      '    unless it comes from a: "copies.allowPlain"',
      "  suspended, so they take no new volumes: b",
    ]);
  });

  test("is one line where they are switched off, and nothing for one connection or files that are not valid", () => {
    const off = { "proxy.yaml": main("  copies: { enabled: false }\n"), "a.yaml": nfs(), "b.yaml": nfs() };
    expect(notes(off)).toEqual([
      'copies between connections, as far as the files say: none, because "proxy.copies.enabled" is false',
    ]);
    expect(notes({ "a.yaml": nfs() })).toEqual([""]);
    expect(notes({ "a.yaml": nfs(), "b.yaml": "driver: nfs-client\n" })).toEqual([""]);
    expect(copyData(deploymentOf({ "a.yaml": nfs() }))).toEqual([]);
  });

  test("JSON has the same with all names", () => {
    const [data] = copyData(deploymentOf({ "a.yaml": zfs("one"), "b.yaml": zfs("one"), "c.yaml": zfs("two") }));
    const stream = { volumes: ["zfs-send"], snapshots: ["zfs-send"] } as const;
    const here = { volumes: ["zfs-send-local"], snapshots: ["zfs-send-local"] } as const;
    expect(data).toEqual({
      rows: [
        {
          from: ["a", "b"],
          targets: [
            { to: [], eachOther: true, ...here },
            { to: ["c"], eachOther: false, ...stream },
          ],
        },
        { from: ["c"], targets: [{ to: ["a", "b"], eachOther: false, ...stream }] },
      ],
      ...{ omitted: [], notSources: [], notTargets: [] },
    });
  });

  test("the rule finds a name that has no method, from either side", () => {
    const found = check({
      "proxy.yaml": main(""),
      "a.yaml": zfs("one", "copies: { to: { members: [b, disk, a, api] }, from: { members: [f] } }\n"),
      "b.yaml": zfs("two", "copies: { from: { members: [] } }\n"),
      "disk.yaml": zfs("two", "", "zfs-generic-iscsi"),
      "f.yaml": nfs(),
      "api.yaml": file("freenas-api-nfs"),
    }).filter(({ rule }) => rule === "copy-method-missing");
    expect(found.map(({ path, fix }) => `${path}: ${fix}`)).toEqual([
      'copies.to.members[0]: add it to "copies.from" of "b", or remove the name',
      "copies.to.members[1]: remove the name",
      'copies.to.members[3]: set "copies.sshConnection" in the file of "api", or remove the name',
      "copies.from.members[0]: remove the name",
    ]);
  });
});

/** Connections that give and take streams, each on the machine that `machineOf` names. */
const many = (count: number, more: (index: number) => Partial<CopyEnd>, machineOf: (index: number) => string) =>
  Array.from({ length: count }, (_, index): CopyEnd => {
    const stream = { format: "zfs:filesystem", machine: machineOf(index) } as const;
    return {
      ...{ name: `c${index}`, driverName: "zfs-generic-nfs", labels: {} },
      copySource: { content: "files", stream, tree: false, fill: false },
      copyTarget: { content: "files", stream, folder: false },
      ...more(index),
    };
  });

const policy = (to: readonly string[]) => ({
  copies: { from: undefined, to: { kind: "members", members: to } as const, allowPlain: false, dropAcls: false },
});

/** The number of lines that people would see. */
const linesOf = ({ rows }: CopyMethods) => rows.reduce((sum, { targets }) => sum + 1 + targets.length, 0);

describe("the matrix of a thousand connections", () => {
  test("is three lines for each machine if all others are equal", () => {
    const ends = many(
      1_000,
      () => ({}),
      index => `m${index % 2}`,
    );
    const { rows } = copyMethods(ends, { enabled: true }, 20);
    expect(rows.map(({ from, targets }) => [from.length, targets.length])).toEqual([
      [500, 2],
      [500, 2],
    ]);
    expect(rows[0]?.targets).toMatchObject([
      { to: [], eachOther: true, volumes: ["zfs-send-local"] },
      { eachOther: false, volumes: ["zfs-send"] },
    ]);
  });

  test("is bounded and complete in what it leaves out if each has a list of its own", () => {
    const ends = many(
      1_000,
      index => policy([`c${(index + 1) % 1_000}`]),
      index => `m${index}`,
    );
    const matrix = copyMethods(ends, { enabled: true }, 20);
    expect(matrix.rows).toHaveLength(20);
    expect(linesOf(matrix)).toBeLessThanOrEqual(60);
    expect(matrix.rows[7]?.targets[0]?.to).toEqual(["c8"]);
    expect(matrix.rows[7]?.targets[1]?.to).toHaveLength(998);
    expect([...matrix.rows.flatMap(({ from }) => from), ...matrix.omitted]).toEqual(ends.map(({ name }) => name));
  });

  test("says of every pair what the router says", () => {
    const kinds: readonly Partial<CopyEnd>[] = [
      {},
      { copySource: undefined },
      { copyTarget: undefined },
      { labels: { tier: "fast" } },
      policy(["c0", "c3", "c9"]),
      {
        copies: {
          ...policy([]).copies,
          to: undefined,
          from: { kind: "selector", selector: [{ key: "tier", operator: "exists", values: [] }] },
        },
      },
      {
        copySource: { content: "files", stream: undefined, tree: true, fill: true },
        copyTarget: { content: "files", stream: undefined, folder: true },
      },
      { copySource: { content: "blocks", stream: undefined, tree: true, fill: false } },
    ];
    const ends = many(
      40,
      index => kinds[(index * 7) % kinds.length] ?? {},
      index => `m${index % 5}`,
    );
    const matrix = copyMethods(ends, { enabled: true }, 100);
    for (const from of ends) {
      for (const to of ends.filter(each => each !== from)) {
        const wanted = methodsBetween(from, to, "volume", { enabled: true });
        const row = matrix.rows.find(each => each.from.includes(from.name));
        const found = row?.targets.find(
          each => each.to.includes(to.name) || (each.eachOther && row.from.includes(to.name)),
        );
        const none = matrix.notSources.includes(from.name) ? "not-a-source" : "not-a-target";
        const said = found?.why === undefined ? (found?.volumes.join() ?? none) : found.because;
        expect(`${from.name} ${to.name} ${said}`).toBe(
          `${from.name} ${to.name} ${wanted.kind === "methods" ? wanted.methods.join() : wanted.because}`,
        );
      }
    }
  });
});
