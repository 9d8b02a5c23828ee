import { expect, test } from "bun:test";
import { cpSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import type { CommandRunner } from "../../../../lib/io/runner.ts";
import {
  expectTruthful,
  harmsOf,
  operations,
  type SpoiledRig,
  type Spoiler,
} from "../../../contract/spoiled-answers.ts";
import type { Version } from "../../../fakes/truenas/versions.ts";
import { everything, seed } from "../../../sample.ts";
import type { Protocol } from "../rig.ts";
import { sshRig } from "../ssh-rig.ts";
import { type ApiAnswer, apiHarms, saved, spoil, thingsOf } from "./spoiled.ts";

// Every answer to every operation of the drivers with ZFS over ssh, those of programs as well as those of the API, spoiled in every
// way that can happen.

/** Answers of programs come through `spoiler`, too. */
const spoiled = (runner: CommandRunner, spoiler: Spoiler<SshAnswer>): CommandRunner => ({
  ...runner,
  where: runner.where,
  async run(command, signal) {
    const output = await runner.run(command, signal);
    const { text, code } = spoiler.answer({ text: output.stdout, code: output.exitCode, program: true });
    return { ...output, stdout: text, exitCode: code };
  },
});

interface SshAnswer extends ApiAnswer {
  readonly program?: true;
}

async function open(protocol: Protocol, version: Version): Promise<SpoiledRig<SshAnswer>> {
  const rig = await sshRig(protocol, version);
  const { double, fake } = rig;
  const noon = Date.now();
  double.now = () => noon;
  const copy = join(fake.folder, "saved");
  const state = () => readFileSync(join(fake.folder, "state.json"), "utf8").replace(/"log":\[.*\]/, "");
  let driver: Driver | undefined;
  return {
    harms: (answer, random) => (answer.program ? harmsOf(answer, random) : apiHarms(answer, random)),
    open(spoiler) {
      void driver?.close?.();
      spoil(double, spoiler);
      driver = rig.through(runner => spoiled(runner, spoiler));
      return driver;
    },
    async save() {
      fake.commands();
      const restore = saved(double);
      const kept = ["state.json", "mnt"].filter(each => existsSync(join(fake.folder, each)));
      for (const each of kept) cpSync(join(fake.folder, each), join(copy, each), { recursive: true });
      const before = state();
      return async () => {
        restore();
        if (state() === before) return;
        for (const each of ["state.json", "mnt"]) rmSync(join(fake.folder, each), { recursive: true, force: true });
        for (const each of kept) cpSync(join(copy, each), join(fake.folder, each), { recursive: true });
      };
    },
    things: async () => [
      ...fake.with(pools => pools.all().map(({ name, guid }) => `${name}#${guid}`)),
      ...thingsOf(double),
    ],
    close: rig.close,
  };
}

const effort = everything ? { random: 50 } : { random: 2, most: 6, seed };

const systems = [
  ["nfs", "26.0"],
  ["smb", "25.04"],
  ["iscsi", "13.0"],
  ["iscsi", "24.10"],
  ["nvmeof", "25.10"],
] as const;

test.each(systems.flatMap(system => Object.keys(operations).map(title => [...system, title] as const)))(
  "truenas-%s with ZFS over ssh on TrueNAS %s never reports success of what was not done, and destroys nothing else, whatever happens to an answer: %s",
  async (protocol, version, title) => {
    const rig = await open(protocol, version);
    try {
      expect(await expectTruthful(rig, title, effort)).toBeGreaterThan(0);
    } finally {
      await rig.close();
    }
  },
  600_000,
);
