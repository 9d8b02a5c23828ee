import { existsSync } from "node:fs";
import { access, constants } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Log } from "../../lib/core/call.ts";
import { errnoOf } from "../../lib/core/errors.ts";
import type { CommandObserver } from "../../lib/core/observer.ts";
import type { MainFile } from "../../lib/daemon/main-file.ts";
import { mountFlags } from "../../lib/daemon/mount-flags.ts";
import { answersTcp } from "../../lib/io/dial.ts";
import { localRunner } from "../../lib/io/local.ts";
import { measured } from "../../lib/io/measured.ts";
import { hostRunner } from "../../lib/io/runner.ts";
import { attachers } from "../../lib/node/attach/attachers.ts";
import { DiskFilesystems } from "../../lib/node/disks/disk-filesystems.ts";
import type { InlineProvisioner } from "../../lib/node/inline.ts";
import { NodeVolumes } from "../../lib/node/volumes.ts";
import type { ValueResolver } from "../../lib/schema/value-resolver.ts";
import { type Host, toolEnvironment } from "../host.ts";
import { healthTimes } from "./health-rounds.ts";
import type { NodeReport } from "./node-info.ts";
import type { ServeOptions } from "./options.ts";

/** The mount point of the host's root in the node pod of democratic-csi's chart. */
const hostRoot = "/host";

/** Rejects with an errno error unless the folder is writable or could be created. */
async function writable(folder: string): Promise<void> {
  try {
    await access(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    if (errnoOf(error) !== "ENOENT" || folder === dirname(folder)) throw error;
    await writable(dirname(folder));
  }
}

/** The folder of the node's records. */
export const stateFolder = ({ stateDir, name }: Pick<ServeOptions, "stateDir" | "name">): string =>
  stateDir ?? join(existsSync(hostRoot) ? hostRoot : "/", "var/lib/csimux", name);

/**
 * Builds the node half. `inline` provisions ephemeral inline volumes; commands are reported to `tell`; `elsewhere`
 * returns contexts of volumes that the node might get.
 */
export function openNode(
  options: ServeOptions,
  host: Host,
  main: MainFile,
  resolver: ValueResolver,
  { info }: NodeReport,
  inline: InlineProvisioner,
  tell: CommandObserver,
  elsewhere: () => Promise<readonly Readonly<Record<string, string>>[]>,
) {
  const runner = measured(localRunner({ env: toolEnvironment(host.env) }), tell);
  const state = stateFolder(options);
  const onHost = existsSync(hostRoot) ? hostRunner(runner, hostRoot) : runner;
  const volumes = new NodeVolumes({
    drivers: [{ name: options.name }, ...options.aliases],
    runner,
    host: onHost,
    mountFlags: mountFlags(main, resolver),
    attachers: attachers({
      runner,
      host: onHost,
      hostFolders: async () => {
        await main.refresh();
        return main.config.node.hostFolders;
      },
      hostDatasets: async () => {
        await main.refresh();
        return main.config.node.hostDatasets;
      },
      hostMounts: host.env["USE_HOST_MOUNT_TOOLS"] === "1",
      devices: "/dev",
      sys: "/sys",
      proc: "/proc",
      hostRoot: existsSync(hostRoot) ? hostRoot : "/",
      answers: answersTcp,
      opened: join(state, "opened"),
    }),
    disks: new DiskFilesystems({ runner, sys: "/sys", folder: join(state, "formats"), settings: main.config.node }),
    inline: { maker: inline, folder: join(state, "inline") },
    records: join(state, "volumes"),
    mountinfo: "/proc/self/mountinfo",
    answers: answersTcp,
    health: { everyMs: options.healthMs, holdMs: healthTimes(options.healthMs).hold, elsewhere },
  });
  return {
    parts: { volumes, info },
    /**
     * Warns if no volume can be staged here, before one is; it does not end the process, because pods can still be
     * removed. Then checks what an earlier process left behind.
     */
    begin: async (log: Log) => {
      try {
        await writable(state);
      } catch (error) {
        const reason = errnoOf(error) ?? "unknown reason";
        log.warn(`the state folder ${state} cannot be used (${reason}), so no volume can be staged; see --state-dir`);
      }
      await volumes.begin(log);
    },
  };
}
