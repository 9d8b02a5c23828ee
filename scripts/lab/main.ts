import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { Command, InvalidArgumentError } from "commander";
import { widenPath } from "../packages.ts";
import { fail } from "../say.ts";
import { tallyLine } from "../tally.ts";
import { buildImage } from "./build.ts";
import { down, sshToRunning, up } from "./guest.ts";
import { chosenGuest, guestNumbers, runningGuests } from "./guests.ts";
import { guestPorts, hostPort } from "./machine.ts";
import { wantedImage } from "./place.ts";
import { put } from "./put.ts";
import { runLabTests } from "./test.ts";

widenPath();

function guestNumber(text: string): number {
  const number = guestNumbers.find(known => String(known) === text);
  if (number === undefined) throw new InvalidArgumentError(`guests are ${guestNumbers.join(", ")}`);
  return number;
}

interface Choice {
  readonly guest?: number;
}

async function status(): Promise<void> {
  const image = await wantedImage();
  console.log(`image: ${image.folder} (${existsSync(image.finished) ? "built" : "not built"})`);
  const guests = await runningGuests();
  if (guests.length === 0) console.log("no guest is running");
  for (const guest of guests) {
    const ports = Object.entries(guestPorts).map(([name, port]) => `${name} ${hostPort(guest.number, port)}`);
    console.log(`guest ${guest.number}: pid ${guest.pid}, started from ${guest.owner}`);
    console.log(`  on 127.0.0.1: ${ports.join(", ")}; between guests: 10.77.0.${guest.number}`);
    console.log(`  ${sshToRunning(guest).argv.join(" ")}`);
  }
}

/** Gives ssh the terminal. The guest's shell reads the joined words, as with ssh. */
async function session(command: readonly string[], { guest }: Choice): Promise<void> {
  const [program, ...args] = sshToRunning(await chosenGuest(guest)).argv;
  const child = spawn(program, [...args, ...command], { stdio: "inherit" });
  const [code] = await once(child, "close");
  process.exitCode = code ?? 255;
}

async function copy(paths: readonly string[], { guest }: Choice): Promise<void> {
  const [folder, ...files] = [...paths].reverse();
  if (folder === undefined || files.length === 0) throw new Error("put requires files and then a folder of the guest");
  const ssh = sshToRunning(await chosenGuest(guest));
  for (const from of files.reverse()) await put(ssh, { from }, folder);
}

async function downAll({ guest }: Choice & { readonly all?: boolean }, all: boolean): Promise<void> {
  if (!all) return down(await chosenGuest(guest));
  for (const running of await runningGuests()) await down(running);
}

function minutes(text: string): number {
  const number = Number(text);
  if (!(number > 0)) throw new InvalidArgumentError("a number above 0");
  return number;
}

interface TestChoice extends Choice {
  readonly minutes: number;
  readonly cases?: string;
}

async function test(only: readonly string[], { guest, minutes, cases }: TestChoice): Promise<void> {
  const tally = await runLabTests({ only, guest, cases, deadline: Date.now() + minutes * 60_000 });
  console.log(`\n${tallyLine(tally)}`);
  process.exitCode = tally.failed > 0 ? 1 : 0;
}

const program = new Command("bun scripts/lab/main.ts")
  .description("A disposable Debian machine with NFS, SMB, iSCSI, NVMe/TCP and ZFS in QEMU")
  .enablePositionalOptions();
const withGuest = (command: Command): Command =>
  command.option("-g, --guest <number>", "the guest; required if this checkout has started several", guestNumber);

program
  .command("build")
  .description("builds the image if it does not exist (as root; 5 to 10 minutes)")
  .action(async () => console.log((await buildImage()).folder));
withGuest(program.command("up"))
  .description("starts a guest, by default the first free one, and prints its number")
  .action(async ({ guest }: Choice) => console.log((await up({ number: guest, tethered: false })).number));
withGuest(program.command("down"))
  .description("ends a guest and removes its disks")
  .option("--all", "all guests on this host, whatever started them")
  .action((choice: Choice & { all?: boolean }) => downAll(choice, choice.all === true));
withGuest(program.command("ssh"))
  .description("runs a command or a shell in a guest, as root")
  .argument("[command...]")
  .passThroughOptions()
  .action(session);
withGuest(program.command("put"))
  .description("copies files and folders into a folder of a guest")
  .argument("<paths...>", "files, and then the folder")
  .action(copy);
withGuest(program.command("test"))
  .description("runs all tests of the lab, or the named ones, in a new guest or in a running one (--guest)")
  .argument("[names...]")
  .option("--cases <pattern>", "only cases whose titles match this regular expression")
  .option("--minutes <number>", "time limit of all tests", minutes, 120)
  .action(test);
program.command("status").description("shows the image and the running guests").action(status);

await program.parseAsync().catch(fail);
