import type { Command } from "commander";
import type { Host } from "../../host.ts";
import { exit, unlessMisused } from "../../terminal/terminal.ts";
import type { VolumesFlags } from "./flags.ts";

const about =
  "compare the volumes of every connection with the PersistentVolumes of a cluster: bound, orphaned (storage without PersistentVolume), lost (PersistentVolume without storage)";

/** `csimux volumes`: what the storage systems have. Only `adopt --mark` changes anything. */
export function addVolumes(program: Command, host: Host): void {
  const volumes = program.command("volumes").description(`${about}; see csimux volumes list --help`);
  const common = (command: Command): Command =>
    command
      .option("--config <file>", "the main file, usually proxy.yaml (default: that of the running csimux)")
      .option("--endpoint <url>", "the CSI socket of the running csimux (also CSI_ENDPOINT)")
      .option("--name <name>", "driver name that the cluster sees (default: that of the running csimux)")
      .option("--pvs <file>", "the output of kubectl get pv,pvc -A -o json; - for standard input")
      .option("--timeout <seconds>", "time limit for each connection", "60");
  const listing = (command: Command): Command =>
    common(command).option("-o, --output <format>", "text or json", "text").option("--json", "same as --output json");
  listing(volumes.command("list", { isDefault: true }))
    .description(`${about}, and show what stays on the storage because something needs it; changes nothing`)
    .addHelpText(
      "after",
      `
Exit code 0: every volume has its PersistentVolume and vice versa, or no --pvs
is given; 1: some have not; 2: something could not be listed, or a connection
of a PersistentVolume has no file.`,
    )
    .action(async (flags: VolumesFlags) =>
      exit(await unlessMisused(host, async () => (await import("./volumes.ts")).list(flags, host))),
    );
  listing(volumes.command("orphans"))
    .description("list the volumes without a PersistentVolume; needs --pvs; deletes nothing")
    .option("--print-delete", "print manifests with which a person can have csimux delete them")
    .action(async (flags: VolumesFlags) =>
      exit(await unlessMisused(host, async () => (await import("./volumes.ts")).orphans(flags, host))),
    );
  common(volumes.command("adopt"))
    .description("print a PersistentVolume and a claim for a volume, dataset, folder, LUN or share that exists")
    .argument("[connection]", "the connection that it is on")
    .argument("[object]", "the id of a volume, or the name of the object on the storage system")
    .option(
      "--all",
      "instead: every volume that records its claim and is free, for a cluster that is gone; needs --pvs",
    )
    .option("--claim <namespace/name>", "the claim (default: default/<name of the PersistentVolume>)")
    .option(
      "--mark",
      "mark an object that a person made as a volume of the connection, or a volume as no longer that of the claim that gave it up; nothing else is changed",
    )
    .action(async (connection: string | undefined, object: string | undefined, flags: VolumesFlags) =>
      exit(await unlessMisused(host, async () => (await import("./adopt.ts")).adopt(flags, host, connection, object))),
    );
}
