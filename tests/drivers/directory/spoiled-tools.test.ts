import { afterEach, expect, test } from "bun:test";
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { CommandError, type CommandRunner } from "../../../lib/io/runner.ts";
import { below } from "../../../scripts/check/below.ts";
import { expectTruthful, type Operation, operations, type SpoiledRig } from "../../contract/spoiled-answers.ts";
import { effortOf, harmsOfPrinted, type Printed, spoiledRunner } from "../../contract/spoiled-programs.ts";
import { seed } from "../../sample.ts";
import { openOn, systemRunner, temporaryFolder, toolOf } from "./directory-rig.ts";

// The outputs of the tools that copy, flush and remove trees, spoiled in every way.

const bases: string[] = [];
afterEach(async () => {
  for (const base of bases.splice(0)) await rm(base, { recursive: true, force: true });
});

/**
 * The tools of this machine, except cp: it is run, has complaints about files of its source and ends with 1; the shell around it
 * writes its last line behind them. Undefined: it is not installed.
 */
const withCp = (complaints: ((source: string) => string) | undefined): CommandRunner => ({
  ...systemRunner,
  where: systemRunner.where,
  async run(command, signal) {
    const { argv } = toolOf(command);
    if (argv[0] !== "cp") return systemRunner.run(command, signal);
    if (!complaints) throw new CommandError("test", "cp", "missing", "there is no such program");
    const { stdout, stderr } = await systemRunner.run(command, signal);
    return { stdout, stderr: complaints(argv.at(-2) ?? "") + stderr, exitCode: 1 };
  },
});

const vanished = (source: string, name: string) => `cp: cannot stat '${source}/${name}': No such file or directory\n`;
const full = "cp: error writing 'file': No space left on device\n";

/** Ways in which a tree is copied. */
const ways: Readonly<Record<string, CommandRunner>> = {
  "GNU cp": systemRunner,
  ...(Bun.which("rsync") ? { rsync: withCp(undefined) } : {}),
  "GNU cp, from which files vanish": withCp(source => vanished(source, "a") + vanished(source, "b")),
  "GNU cp, on a full disk": withCp(source => vanished(source, "a") + full),
};

/** The files and folders below a folder, each file with what it holds. */
const filesIn = (folder: string): readonly string[] =>
  below(folder)
    .filter(name => name !== "" && !/^\.csimux\b/.test(name))
    .map(name =>
      statSync(join(folder, name)).isFile() ? `${name} ${readFileSync(join(folder, name), "utf8")}#` : `${name}#`,
    );

/** Puts content into all volumes and snapshots, so that tools have something to do. */
async function fill(base: string): Promise<void> {
  const trees = ["v", "s"].flatMap(sort =>
    existsSync(join(base, sort)) ? readdirSync(join(base, sort)).map(name => join(base, sort, name)) : [],
  );
  for (const tree of trees) {
    await mkdir(join(tree, "sub"), { recursive: true });
    writeFileSync(join(tree, "sub/file"), "content");
  }
}

async function open(runner: CommandRunner): Promise<{ readonly base: string; readonly rig: SpoiledRig<Printed> }> {
  const [base, copy] = [await temporaryFolder(), await temporaryFolder()];
  bases.push(base, copy);
  const rig: SpoiledRig<Printed> = {
    open: spoiler => openOn(base, { runner: spoiledRunner(runner, spoiler) }),
    harms: harmsOfPrinted,
    async save() {
      cpSync(base, copy, { recursive: true });
      return async () => {
        for (const name of readdirSync(base)) rmSync(join(base, name), { recursive: true });
        cpSync(copy, base, { recursive: true });
      };
    },
    things: async () => filesIn(base),
    close: () => rm(base, { recursive: true, force: true }),
  };
  return { base, rig };
}

const copying = ["clone", "restore", "take a snapshot"];
const removing = ["delete", "delete a volume with a snapshot", "delete a snapshot"];
const cases = Object.entries(ways).flatMap(([way, runner]) =>
  [...copying, ...(way === "GNU cp" ? removing : [])].map(title => [way, title, runner] as const),
);

test.each(cases)(
  `with %s a directory driver never says that it did, when it did not: %s; and it removes nothing more, however an answer is spoiled (seed ${seed})`,
  async (_, title, runner) => {
    const { base, rig } = await open(runner);
    const plain = operations[title];
    if (!plain) throw new Error(`there is no operation "${title}"`);
    const operation: Operation = {
      ...plain,
      async before() {
        await plain.before?.(openOn(base));
        await fill(base);
      },
    };
    expect(await expectTruthful(rig, title, { ...effortOf(16), operation })).toBeGreaterThan(0);
  },
  600_000,
);
