import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { root, tool } from "../../scripts/spawned.ts";
import { tallyLine } from "../../scripts/tally.ts";
import { hasCode, readImports } from "../../scripts/test/imports.ts";
import type { Failure, Job } from "../../scripts/test/job.ts";
import { partJob } from "../../scripts/test/part.ts";
import { lastScreen, repeat, runJobs } from "../../scripts/test/run.ts";
import { affected, select, testFiles } from "../../scripts/test/selection.ts";
import { grouped, unhurried, unitJob } from "../../scripts/test/unit.ts";

let folder = "";
beforeAll(async () => {
  // Below the checkout, because bun names files elsewhere in another way.
  await mkdir(join(root, ".cache"), { recursive: true });
  folder = await mkdtemp(join(root, ".cache", "run-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** A new file of tests, by its path from the checkout. */
async function fileOf(name: string, text: string): Promise<string> {
  const path = join(folder, `${name}.test.ts`);
  await writeFile(path, `import { afterAll, describe, expect, test } from "bun:test";\n${text}`);
  return relative(root, path);
}

let runs = 0;
async function run(...jobs: readonly Job[]) {
  const place = join(folder, `run-${++runs}`);
  await mkdir(place);
  const options = { folder: place, workers: 2, signal: new AbortController().signal };
  const { tally, failures } = await runJobs(jobs, options);
  return { line: tallyLine(tally), failures, repeated: () => repeat(failures, options) };
}

const titles = (failures: readonly Failure[]): readonly string[] => failures.map(({ title }) => title);

const good = 'test("good", () => expect(1).toBe(1));\ntest.skip("later", () => {});\n';

describe("a run of tests", () => {
  test("counts passed, failed and skipped cases, and names those that fail with what they printed", async () => {
    const file = await fileOf(
      "mixed",
      `${good}describe("out (er)", () => { describe("inner", () => {
        test("bad $1", () => { console.log("what it printed"); expect(1).toBe(2); });
      }); });`,
    );
    const { line, failures, repeated } = await run(unitJob([file], 1));
    expect(line).toBe("1 passed, 1 failed, 1 skipped");
    expect(titles(failures)).toEqual(["out (er) > inner > bad $1"]);
    expect(failures[0]?.log.join("\n")).toMatch(/what it printed[\s\S]*Expected: 2/);
    expect(await repeated()).toEqual(["fails alone, too"]);
  });

  test("a case that passes alone has failed nevertheless, and the last screen says both", async () => {
    const marker = join(folder, "was-here");
    const file = await fileOf(
      "once",
      `import { existsSync, writeFileSync } from "node:fs";
      test("second time", () => { const was = existsSync("${marker}"); writeFileSync("${marker}", ""); expect(was).toBe(true); });`,
    );
    const { line, failures, repeated } = await run(unitJob([file], 1));
    expect(line).toBe("0 passed, 1 failed");
    const remarks = await repeated();
    expect(remarks).toEqual(["PASSES ALONE"]);
    const screen = lastScreen(failures, remarks, 7);
    expect(screen).toContain("second time\n       PASSES ALONE; load ");
    expect(screen).toContain("CSIMUX_SEED=7 make test ONLY=");
    expect(screen).toContain("Expected: true");
  });

  test("a process that dies counts as failed, whatever its exit code, and the others run on", async () => {
    const dying = await fileOf("dying", 'test("dies", () => process.kill(process.pid, "SIGKILL"));');
    const leaving = await fileOf("leaving", 'test("leaves", () => process.exit(0));');
    const fine = await fileOf("fine", good);
    const { line, failures } = await run(unitJob([fine, dying], 2), unitJob([leaving], 3), unitJob([fine], 1));
    expect(line).toBe("1 passed, 2 failed, 1 skipped");
    expect(titles(failures).toSorted()).toEqual(["the process ended with code 0", "the process ended with code 137"]);
    expect(failures.map(({ where }) => where).toSorted()).toEqual([dying, leaving].toSorted());
  });

  test("a file that does not load fails, also next to one with failed cases", async () => {
    const broken = await fileOf("broken", 'throw new Error("no");');
    const bad = await fileOf("bad", `${good}test("bad", () => expect(1).toBe(2));`);
    const { line, failures } = await run(unitJob([bad, broken], 1));
    expect(line).toBe("1 passed, 2 failed, 1 skipped");
    expect(titles(failures)).toEqual(["bad", "the file did not load"]);
  });

  test("hooks that fail and errors after a case count", async () => {
    const hook = await fileOf(
      "hook",
      `${good}describe("a group", () => { afterAll(() => { throw new Error("no"); }); ${good} });`,
    );
    const late = await fileOf(
      "late",
      `${good}afterAll(() => { setTimeout(() => { throw new Error("late"); }, 1); return new Promise(r => setTimeout(r, 20)); });`,
    );
    const { line } = await run(unitJob([hook], 1), unitJob([late], 1));
    expect(line).toBe("3 passed, 2 failed, 3 skipped");
  });

  test("what a test leaves behind counts as failed and is removed: files, and processes with other parents and variables", async () => {
    const file = await fileOf(
      "leaves",
      `import { spawn } from "node:child_process"; import { writeFileSync } from "node:fs";
      test("leaves", () => {
        writeFileSync(process.env.TMPDIR + "/forgotten", "");
        spawn("setsid", ["--fork", "env", "-i", "sleep", "613"], { stdio: "ignore" });
        expect(1).toBe(1);
      });`,
    );
    const { line, failures } = await run(unitJob([file], 1));
    expect(line).toBe("1 passed, 1 failed");
    expect(failures.flatMap(({ log }) => log)).toEqual(['process "sleep 613"', "file forgotten"]);
    expect((await run(unitJob([await fileOf("after", good)], 1))).line).toBe("1 passed, 0 failed, 1 skipped");
  });

  test("CASES: only matching cases run and count; a file without any does not fail", async () => {
    const one = await fileOf("one", `${good}test("other", () => expect(1).toBe(2));`);
    const two = await fileOf("two", 'test("other", () => expect(1).toBe(2));');
    const { line } = await run(unitJob([one], 1, "good|later"), unitJob([two], 1, "good|later"));
    expect(line).toBe("1 passed, 0 failed, 1 skipped");
  });

  test("another part counts as its last line says, and as failed without one or with another exit code", async () => {
    const part = (script: string) => partJob(script, 1, [tool("bun"), "-e", script]);
    const { line, failures } = await run(
      part("console.log('1 passed, 1 failed\\n3 passed, 0 failed, 2 skipped')"),
      part("console.log('2 passed, 0 failed'); process.exit(1)"),
      part("0"),
    );
    expect(line).toBe("5 passed, 2 failed, 2 skipped");
    expect(failures).toHaveLength(2);
  });
});

describe("the selection of tests", () => {
  const all = ["tests/core/a.test.ts", "tests/core-b.test.ts", "tests/helm-chart.test.ts", "tests/io/core.test.ts"];

  test.each([
    ["nothing: everything", [], { parts: ["unit", "sanity", "portable"], files: all }],
    ["a folder", ["tests/core"], { parts: ["unit"], files: ["tests/core/a.test.ts"] }],
    ["a folder with a slash", ["./tests/core/"], { parts: ["unit"], files: ["tests/core/a.test.ts"] }],
    ["a file and part of a path", ["tests/core-b.test.ts", "helm"], { parts: ["unit"], files: [all[1], all[2]] }],
    ["other parts", ["sanity", "portable"], { parts: ["sanity", "portable"], files: [] }],
    ["all unit tests", ["unit"], { parts: ["unit"], files: all }],
    ["a part and a folder", ["sanity", "tests/io"], { parts: ["unit", "sanity"], files: [all[3]] }],
  ])("%s", (_, words, expected) => {
    expect(select(words, all)).toEqual(expected as ReturnType<typeof select>);
  });

  test("a word that names nothing is refused", () => {
    expect(() => select(["tests/core", "tests/cores"], all)).toThrow('no file of tests is at or below "tests/cores"');
  });

  describe("of what has changed", () => {
    const [own, whole, other, far] = [
      "tests/drivers/a/one",
      "tests/drivers/a/whole",
      "tests/drivers/b/one",
      "tests/b/two",
    ];
    const tests = [own, whole, other, far, "tests/serve/a"].map(each => `${each}.test.ts`);
    const imports = new Map([
      ["tests/drivers/a/one.test.ts", ["lib/drivers/a/one.ts"]],
      ["tests/drivers/a/whole.test.ts", ["lib/drivers/index.ts"]],
      ["tests/drivers/b/one.test.ts", ["lib/drivers/index.ts"]],
      ["tests/b/two.test.ts", ["tests/b/help.ts"]],
      ["tests/b/help.ts", ["lib/b.ts", "lib/drivers/index.ts"]],
      ["tests/serve/a.test.ts", ["scripts/build.ts"]],
      ["scripts/build.ts", ["cmd/csimux.ts"]],
      ["cmd/csimux.ts", ["lib/drivers/index.ts"]],
      ["lib/drivers/index.ts", ["lib/drivers/a/one.ts", "lib/drivers/b/one.ts"]],
      ["lib/b.ts", ["lib/c.ts"]],
      ["lib/c.ts", ["lib/b.ts"]],
    ]);
    const chosen = (changed: readonly string[], most = 120) => {
      const { files, left, unreached } = affected(changed, {
        all: tests,
        imports,
        seconds: { [`${own}.test.ts`]: 100 },
        most,
      });
      const short = (paths: readonly string[]) => paths.map(path => path.replace(".test.ts", "")).toSorted();
      return { files: short(files), left: short(left), unreached };
    };

    test.each([
      ["the tests that import it, directly or not", ["lib/c.ts"], 120, [far], []],
      ["changed tests", ["tests/b/two.test.ts"], 120, [far], []],
      ["not the tests of other drivers", ["lib/drivers/a/one.ts"], 120, [far, own, whole, "tests/serve/a"], []],
      [
        "within the time: the nearest, then the executable's",
        ["lib/drivers/a/one.ts"],
        105,
        [own, "tests/serve/a"],
        [far, whole],
      ],
      [
        "the nearest of each, whatever it takes",
        ["lib/drivers/a/one.ts", "lib/c.ts"],
        1,
        [far, own],
        [whole, "tests/serve/a"],
      ],
    ])("%s", (_, changed, most, files, left) => {
      expect(chosen(changed, most)).toEqual({ files: files.toSorted(), left: left.toSorted(), unreached: [] });
    });

    test("of this checkout: the daemon's own files select tests of the executable", () => {
      const of = { all: testFiles(), imports: readImports(), seconds: {}, most: 9_999 };
      expect(affected(["cmd/serve/serve.ts"], of).files).toContain("tests/serve/start.test.ts");
      expect(["lib/drivers/driver.ts", "lib/drivers/store-driver.ts"].map(hasCode)).toEqual([false, true]);
    });

    test("what no test reaches is named", () => {
      expect(chosen(["lib/c.ts", "lib/d.ts", "README.md"]).unreached).toEqual(["lib/d.ts", "README.md"]);
    });
  });

  test("files that take long get a process of their own, and the others share some, all of them once", () => {
    const files = ["a", "b", "c", "d", "e"];
    expect(grouped(files, { a: 1, b: 30, c: 1.5, d: 0, e: 12 })).toEqual([["b"], ["e"], ["a"], ["c", "d"]]);
    expect(grouped(files, {}).flat().toSorted()).toEqual(files);
    // Files that take no time run, too.
    expect(grouped(files, { a: 0, b: 0, c: 1, d: 0, e: 0 }).flat()).toEqual(files);
    const many = Array.from({ length: 100 }, (_, at) => `f${at}`);
    const groups = grouped(many, Object.fromEntries(many.map(file => [file, 1])));
    expect(groups.flat()).toEqual(many);
    expect(Math.max(...groups.map(group => group.length))).toBeLessThan(14);
  });

  test("what a busy machine measured is recorded as on an idle one, in the same proportions", () => {
    const idle = { a: 1, b: 3, gone: 50 };
    expect(unhurried({ a: 4, b: 8, new: 6 }, idle)).toEqual({ a: 4 / 3, b: 8 / 3, new: 2 });
    expect(unhurried({ a: 0.5, b: 1 }, idle)).toEqual({ a: 0.5, b: 1 });
    expect(unhurried({ new: 6 }, idle)).toEqual({ new: 6 });
    expect(unhurried({ a: 0 }, idle)).toEqual({ a: 0 });
  });
});
