import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { Command } from "commander";
import { ownArchitecture } from "../image/executables.ts";
import { imageArchive, makeImage } from "../image/main.ts";
import { widenPath } from "../packages.ts";
import { fail, passOn, say, whenInterrupted } from "../say.ts";
import { buildChangedBlocks } from "./changed-blocks.ts";
import { furnish } from "./furnish.ts";
import { buildImages } from "./images.ts";
import { importImages, inMachine, kubectl, machinePid, startMachine, stopMachine } from "./machine.ts";
import { built } from "./place.ts";
import { buildPrograms } from "./programs.ts";
import { requireAll } from "./requirements.ts";
import { runClusterTests } from "./test.ts";
import { buildGoPrograms } from "./tools.ts";
import { buildVolsync } from "./volsync.ts";

widenPath();

/** Builds what is missing, for these tests or for all. */
async function build(only: readonly string[]): Promise<void> {
  const needs = (test: string) => only.length === 0 || only.includes(test);
  await requireAll({ ctr: "containerd", openssl: "openssl" }, !existsSync(built.crds));
  await buildPrograms(needs("external"));
  await buildGoPrograms();
  if (needs("changed-blocks")) await buildChangedBlocks();
  if (needs("backups")) await buildVolsync();
  await buildImages();
}

/** Starts a cluster with the snapshot controller and csimux's image. */
async function up(only: readonly string[]): Promise<void> {
  await build(only);
  await makeImage([ownArchitecture]);
  say("starting Kubernetes");
  await startMachine();
  for (const name of await readdir(built.images))
    if (name.endsWith(".oci.tar")) await importImages(`/run/cluster/images/${name}`);
  await importImages(imageArchive);
  await furnish();
  say("the cluster is running");
}

async function test(only: readonly string[], { keep }: { readonly keep?: boolean }): Promise<void> {
  const ends = (await machinePid()) === undefined && !keep;
  if (ends) whenInterrupted(stopMachine);
  try {
    await up(only);
    process.exitCode = (await runClusterTests(only)) ? 0 : 1;
  } finally {
    if (ends) await stopMachine();
  }
}

const program = new Command("bun scripts/cluster/main.ts")
  .description("A Kubernetes of one node with the CSI sidecars, from Go modules, in separate namespaces")
  .enablePositionalOptions();
program
  .command("build")
  .description("compiles what is not there yet (half an hour the first time)")
  .action(() => build([]));
program
  .command("up")
  .description("starts the cluster, with csimux's image")
  .action(() => up([]));
program.command("down").description("ends it and keeps only the builds").action(stopMachine);
program
  .command("kubectl")
  .allowUnknownOption()
  .argument("[arguments...]")
  .passThroughOptions()
  .description("runs kubectl against the cluster")
  .action(async (argv: readonly string[]) => passOn(await kubectl(argv)));
program
  .command("exec")
  .allowUnknownOption()
  .argument("<command...>")
  .passThroughOptions()
  .description("runs a program on the cluster's machine")
  .action(async (argv: readonly string[]) => passOn(await inMachine(argv)));
program
  .command("test")
  .argument("[names...]")
  .option("--keep", "keep the cluster running")
  .description("runs all tests of the cluster, or the named ones")
  .action(test);

await program.parseAsync().catch(fail);
