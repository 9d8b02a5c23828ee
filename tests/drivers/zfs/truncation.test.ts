import { afterEach, expect, test } from "bun:test";
import { cpSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { localRunner } from "../../../lib/io/local.ts";
import { localHost } from "../../../lib/io/local-host.ts";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import { expectTruthful, operations, type SpoiledRig, type Spoiler } from "../../contract/spoiled-answers.ts";
import { inProcess } from "../../fakes/zfs/pools.ts";
import { type ZfsOptions, zfsRig } from "./zfs-rig.ts";

const rigs: SpoiledRig[] = [];
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});

/** A host between whose programs and csimux something loses output: sudo, a wrapper, the login shell. */
const spoiled = (runner: CommandRunner, spoiler: Spoiler): CommandRunner => ({
  ...runner,
  where: runner.where,
  async run(command, signal) {
    const output = await runner.run(command, signal);
    const { text, code } = spoiler.answer({ text: output.stdout, code: output.exitCode });
    return { ...output, stdout: text, exitCode: code };
  },
});

/** What the model of a host keeps in its folder, but for devices, which are as large as their volumes. */
const kept = ["state.json", "mnt", "lio", "nvmet", "saved.json"] as const;

async function open(options: ZfsOptions): Promise<SpoiledRig> {
  const rig = await zfsRig(options);
  const { fake } = rig;
  const programs = inProcess(fake, localRunner({ env: { PATH: `${fake.bin}:/usr/sbin:/usr/bin:/sbin:/bin` } }));
  const state = () => readFileSync(join(fake.folder, "state.json"), "utf8").replace(/"log":\[.*\]/, "");
  const opened: SpoiledRig = {
    open: spoiler => rig.on(localHost(spoiled(programs, spoiler))),
    async save() {
      fake.commands();
      const copy = join(fake.folder, "saved");
      rmSync(copy, { recursive: true, force: true });
      for (const each of kept)
        if (existsSync(join(fake.folder, each))) cpSync(join(fake.folder, each), join(copy, each), { recursive: true });
      const before = state();
      return async () => {
        if (state() === before) return;
        for (const each of kept) {
          rmSync(join(fake.folder, each), { recursive: true, force: true });
          if (existsSync(join(copy, each))) cpSync(join(copy, each), join(fake.folder, each), { recursive: true });
        }
      };
    },
    things: async () => [
      ...fake.with(pools => pools.all().map(({ name, guid }) => `${name}#${guid}`)),
      ...fake.targets().map(each => `${each}#`),
    ],
    close: rig.close,
  };
  rigs.push(opened);
  return opened;
}

// Volumes that are set aside when they are deleted while something needs them go other ways there, and nowhere else.
const setAside = { driver: "zfs-local-zvol", zfs: { deleteWithDependents: "tombstone" } };
/** What a share or target adds to a volume; a deletion waits for a tool's lock at each answer, so target-answers.test.ts looks at its answers. */
const shared = ["zfs-generic-smb", "zfs-generic-iscsi", "zfs-generic-nvmeof"] as const;
const cases: readonly (readonly [string, string, ZfsOptions])[] = [
  ...shared.flatMap(driver =>
    Object.keys(operations)
      .filter(title => /^(?:create|get|list|expand)$/.test(title))
      .map(title => [driver, title, { driver }] as const),
  ),
  ...Object.keys(operations).map(title => ["zfs-generic-nfs", title, { driver: "zfs-generic-nfs" }] as const),
  ...Object.keys(operations)
    .filter(title => /^list|^delete a (?:volume|snapshot)/.test(title))
    .map(title => [setAside.driver, title, setAside] as const),
];

test.each(cases)(
  "%s never says that it did, when it did not: %s; and it destroys nothing more, however an answer is spoiled",
  async (_, title, options) => {
    expect(
      await expectTruthful(
        await open(options),
        title,
        options.driver === "zfs-generic-nfs" ? 50 : options === setAside ? 10 : 2,
      ),
    ).toBeGreaterThan(0);
  },
  300_000,
);
