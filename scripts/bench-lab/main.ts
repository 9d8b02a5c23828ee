import { Command } from "commander";
import { type Figure, table } from "../bench/table.ts";
import { build } from "../build.ts";
import { down, type Guest, sshToRunning, up } from "../lab/guest.ts";
import { chosenGuest, runningGuest } from "../lab/guests.ts";
import { type Contestants, compare } from "./compare.ts";
import { crowd, manyVolumes } from "./crowd.ts";
import { operations, snapshotted } from "./operations.ts";
import { channels, standingShell } from "./shells.ts";
import { datasetOf, startSubject } from "./subject.ts";

/** How much is measured: the part of each operation's times, how many volumes at once, and how many in a listing. */
const full = { share: 1, atOnce: 100, volumes: 5000 };
const quick = { share: 1 / 3, atOnce: 20, volumes: 500 };

const options = new Command("bun scripts/bench-lab/main.ts")
  .option("--guest <number>", "a guest that is up and stays up; a fresh one when absent", Number)
  .option("--volumes <number>", "how many volumes the listing has, 0 to leave that out", Number)
  .option("--only <title>", "only what is so called", "")
  .option("--quick", "fewer of everything, for a look at a busy machine")
  .parse()
  .opts<{ readonly guest?: number; readonly volumes?: number; readonly quick?: true; readonly only: string }>();
const chosenScale = options.quick ? quick : full;
const scale = { ...chosenScale, volumes: options.volumes ?? chosenScale.volumes };

async function chosen(): Promise<Guest> {
  if (options.guest === undefined) return up({ tethered: true });
  return { number: options.guest, ssh: sshToRunning(await chosenGuest(options.guest)) };
}

/** Measures part after part and prints each when it is there, since all of them take an hour where the processor is made in software. */
async function measured(all: Contestants): Promise<void> {
  const part = async (title: string, measure: () => Promise<readonly Figure[]>): Promise<void> => {
    if (!title.includes(options.only)) return;
    process.stderr.write(`${title} ...\n`);
    console.log(`\n${table(await measure())}`);
  };
  // The dataset above the volumes, and the first login, belong to no figure.
  for (const connection of ["nfs", "iscsi"]) await all.subject.create(connection, snapshotted);
  for (const operation of operations)
    await part(operation.title, () => compare(operation, all, operation.times * scale.share));
  await part("many volumes at once", () => crowd(all, scale.atOnce));
  if (scale.volumes > 0) await part(`${scale.volumes} volumes in the pool`, () => manyVolumes(all, scale.volumes));
}

const executable = await build();
const guest = await chosen();
const { ssh } = guest;
const floor = standingShell(ssh);
const subject = await startSubject(executable, guest);
try {
  await measured({ subject, floor, reference: channels(ssh), ssh });
  console.log(`
csimux and the two others run on this machine, the storage host is guest ${guest.number} of the lab. floor: the bare commands for
the same result, in one shell over one connection that stands. democratic-csi: its commands one after another, each in a
channel of its own over one connection that is held; its pause of two seconds after an unshare is in the time of DeleteVolume.`);
} finally {
  floor.close();
  await subject.end();
  const own = options.guest === undefined ? await runningGuest(guest.number) : undefined;
  if (own) await down(own);
  else for (const name of ["nfs", "iscsi"]) await ssh.run(["zfs", "destroy", "-r", datasetOf(name)]);
}
