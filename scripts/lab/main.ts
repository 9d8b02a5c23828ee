import { spawn } from "node:child_process";
import { once } from "node:events";
import { Command, InvalidArgumentError } from "commander";
import { exists } from "../exists.ts";
import { widenPath } from "../packages.ts";
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
  console.log(`image: ${image.folder} (${(await exists(image.finished)) ? "built" : "not built"})`);
  const guests = await runningGuests();
  if (guests.length === 0) console.log("no guest is up");
  for (const guest of guests) {
    const ports = Object.entries(guestPorts).map(([name, port]) => `${name} ${hostPort(guest.number, port)}`);
    console.log(`guest ${guest.number}: pid ${guest.pid}, started from ${guest.owner}`);
    console.log(`  on 127.0.0.1: ${ports.join(", ")}; between guests: 10.77.0.${guest.number}`);
    console.log(`  ${sshToRunning(guest).argv.join(" ")}`);
  }
}

/** Hands the terminal to ssh. Words are joined and read by the guest's shell, as ssh does. */
async function session(command: readonly string[], { guest }: Choice): Promise<void> {
  const [program, ...args] = sshToRunning(await chosenGuest(guest)).argv;
  const child = spawn(program, [...args, ...command], { stdio: "inherit" });
  const [code] = await once(child, "close");
  process.exitCode = code ?? 255;
}

async function copy(paths: readonly string[], { guest }: Choice): Promise<void> {
  const [folder, ...files] = [...paths].reverse();
  if (folder === undefined || files.length === 0) throw new Error("put takes files and then a folder of the guest");
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
  .description("A throw-away Debian machine with NFS, SMB, iSCSI, NVMe/TCP and ZFS, emulated by QEMU")
  .enablePositionalOptions();
const withGuest = (command: Command): Command =>
  command.option("-g, --guest <number>", "which guest; needed when this checkout has started several", guestNumber);

program
  .command("build")
  .description("makes the image unless it is there (root; 5 to 10 minutes)")
  .action(async () => console.log((await buildImage()).folder));
withGuest(program.command("up"))
  .description("starts a guest, the first free one unless told which, and says its number on stdout")
  .action(async ({ guest }: Choice) => console.log((await up({ number: guest, tethered: false })).number));
withGuest(program.command("down"))
  .description("ends a guest; its disks are gone")
  .option("--all", "every guest on this host, whoever started it")
  .action((choice: Choice & { all?: boolean }) => downAll(choice, choice.all === true));
withGuest(program.command("ssh"))
  .description("a command in a guest, or a shell, as root")
  .argument("[command...]")
  .passThroughOptions()
  .action(session);
withGuest(program.command("put"))
  .description("copies files and folders into a folder of a guest")
  .argument("<paths...>", "files, and then the folder")
  .action(copy);
withGuest(program.command("test"))
  .description(
    "runs the lab's tests, or those named, in a guest of their own, or in one that is up and stays up (--guest)",
  )
  .argument("[names...]")
  .option("--cases <pattern>", "only cases whose titles match this regular expression")
  .option("--minutes <number>", "when all must be over", minutes, 120)
  .action(test);
program.command("status").description("the image and the guests that run").action(status);

try {
  await program.parseAsync();
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
