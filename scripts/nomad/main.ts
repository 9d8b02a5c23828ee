import { existsSync } from "node:fs";
import { copyFile, rename } from "node:fs/promises";
import { Command } from "commander";
import { build as buildCsimux } from "../build.ts";
import { requireAll } from "../cluster/requirements.ts";
import { widenPath } from "../packages.ts";
import { fail, passOn, say, whenInterrupted } from "../say.ts";
import { loadImages } from "./images.ts";
import { clientsReady, inMachine, machinePid, nomadCommand, startMachine, stopMachine } from "./machine.ts";
import { built, clientNames, executable } from "./place.ts";
import { buildNomad } from "./program.ts";
import { runNomadTests } from "./test.ts";

widenPath();

async function build(): Promise<void> {
  await requireAll({ docker: "docker.io", dockerd: "docker.io" }, !existsSync(built.nomad));
  await buildNomad();
}

/** Starts a server and its clients, with csimux's executable and image. */
async function up(): Promise<void> {
  await build();
  say("starting Nomad");
  await startMachine();
  // Renamed, because plugins of a running machine execute the old one.
  await copyFile(await buildCsimux(), `${executable}.new`);
  await rename(`${executable}.new`, executable);
  await loadImages();
  await clientsReady(...clientNames);
  say("Nomad is running");
}

async function test(only: readonly string[], { keep }: { readonly keep?: boolean }): Promise<void> {
  const ends = (await machinePid()) === undefined && !keep;
  if (ends) whenInterrupted(stopMachine);
  try {
    await up();
    process.exitCode = (await runNomadTests(only)) ? 0 : 1;
  } finally {
    if (ends) await stopMachine();
  }
}

const program = new Command("bun scripts/nomad/main.ts")
  .description("A Nomad server and two clients, from its Go module, in separate namespaces")
  .enablePositionalOptions();
program.command("build").description("compiles Nomad (fifteen minutes the first time)").action(build);
program.command("up").description("starts Nomad, with csimux's executable and image").action(up);
program.command("down").description("ends it and keeps only the build").action(stopMachine);
program
  .command("nomad")
  .allowUnknownOption()
  .argument("[arguments...]")
  .passThroughOptions()
  .description("runs nomad against the server")
  .action(async (argv: readonly string[]) => passOn(await nomadCommand(argv)));
program
  .command("exec")
  .allowUnknownOption()
  .argument("<command...>")
  .passThroughOptions()
  .description("runs a program on the server's machine")
  .action(async (argv: readonly string[]) => passOn(await inMachine(argv)));
program
  .command("test")
  .argument("[names...]")
  .option("--keep", "keep Nomad running")
  .description("runs all tests of Nomad, or the named ones")
  .action(test);

await program.parseAsync().catch(fail);
