import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "valibot";
import type { Driver, Volume } from "../../../lib/drivers/driver.ts";
import type { ConnectionIdentity } from "../../../lib/drivers/module.ts";
import { objectivefs } from "../../../lib/drivers/objectivefs/module.ts";
import { localRunner } from "../../../lib/io/local.ts";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import type { DriverRig } from "../../contract/rig.ts";
import { commandsAfter } from "../../contract/steps.ts";
import { environment, FakeObjectiveFs } from "../../fakes/mount-objectivefs.ts";
import { localPorts } from "../../fakes/ports.ts";

export const pool = "csi-volumes";

/** A rig that shows its object store. */
export interface OfsRig extends DriverRig {
  readonly fake: FakeObjectiveFs;
  readonly runner: CommandRunner;
  /** A driver of another file or identity on the same object store. */
  open(more?: OfsOptions): Driver;
}

/** What a connection of a test says. */
export interface OfsOptions {
  readonly identity?: Partial<ConnectionIdentity>;
  readonly section?: object;
  readonly runner?: CommandRunner;
}

/** Opens a driver as its module does. */
function openOfs({ identity, section }: OfsOptions, runner: CommandRunner): Driver {
  const [module] = objectivefs;
  if (!module?.open) throw new Error("objectivefs cannot be opened");
  const config = { objectivefs: { pool, env: environment, ...section } };
  const whole = { connection: "c1", driver: "objectivefs", instanceId: undefined, maxIdBytes: 123, ...identity };
  return module.open(whole, parse(module.schema, config) as never, localPorts(runner));
}

const marker = "content.txt";

/** An object store, and drivers on it. */
export async function ofsRig(given: OfsOptions = {}): Promise<OfsRig> {
  const folder = await mkdtemp(join(tmpdir(), "csimux-ofs-"));
  const fake = await FakeObjectiveFs.at(join(folder, "ofs"));
  const base = { PATH: `${fake.bin}:/usr/sbin:/usr/bin:/sbin:/bin` };
  const runner = localRunner({ env: base });
  const [module] = objectivefs;
  if (!module) throw new Error("objectivefs cannot be opened");
  const place = (volume: Volume) => {
    const [bucket = "", filesystem = ""] = (volume.context["filesystem"] ?? "").split("/");
    return join(fake.place(bucket, filesystem), marker);
  };
  return {
    facts: module.facts,
    fake,
    runner,
    // An object store is never full, but refuses a command for now (S3, "SlowDown").
    after: before =>
      openOfs(given, commandsAfter(runner, before, "ERROR: SlowDown: please reduce your request rate\n")),
    foreign: [
      {
        what: "a file system",
        place: "volume",
        readable: "democratic-csi called its file systems by the id alone",
        async make({ id }) {
          await fake.foreign(pool, id);
          await writeFile(join(fake.place(pool, id), marker), "theirs");
          return () => readFile(join(fake.place(pool, id), marker), "utf8");
        },
      },
    ],
    open: (more = {}) => openOfs({ ...given, ...more }, more.runner ?? runner),
    dying(step, when) {
      const { env, dead } = fake.dying(step, when);
      return { driver: openOfs(given, localRunner({ env: { ...base, ...env } })), dead };
    },
    write: (volume, text) => writeFile(place(volume), text),
    read: volume => readFile(place(volume), "utf8").catch(() => undefined),
    hostileSnapshots: [],
    remains: () => fake.filesystems(pool),
    state: () => fake.filesystems(pool),
    close: () => rm(folder, { recursive: true, force: true }),
  };
}
