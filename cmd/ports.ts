import type { Log } from "../lib/core/call.ts";
import type { CommandObserver } from "../lib/core/observer.ts";
import type { DriverPorts } from "../lib/drivers/module.ts";
import { localRunner } from "../lib/io/local.ts";
import { localHost } from "../lib/io/local-host.ts";
import { measured, measuredHost } from "../lib/io/measured.ts";
import type { CommandRunner } from "../lib/io/runner.ts";
import { SshHosts } from "../lib/io/ssh/hosts.ts";
import type { SshSettings } from "../lib/io/ssh/settings.ts";
import { shareAttachers } from "../lib/node/attach/attachers.ts";
import { Mounts } from "../lib/node/mount/mounts.ts";
import { SharePoints } from "../lib/node/mount/share-points.ts";
import { compiledProgram, type Host, toolEnvironment } from "./host.ts";

/** The argv that starts this program again: its executable, and from sources their first file too. */
function ownArgv(): readonly string[] {
  const [, source = compiledProgram] = process.argv;
  return source.startsWith(compiledProgram) ? [process.execPath] : [process.execPath, source];
}

/**
 * The ports of drivers to programs, hosts and shares; `close` ends logins and unmounts the shares. Without a folder for
 * shares, none is mounted; without one for known hosts, their keys are not kept. Commands are reported to `tell`.
 */
export function openPorts(
  host: Host,
  folders: { readonly shares?: string; readonly knownHosts?: string },
  log: Log,
  tell: CommandObserver = () => {},
): { readonly ports: DriverPorts; readonly close: () => Promise<void> } {
  const env = toolEnvironment(host.env);
  const runner = measured(localRunner({ env }), tell);
  const known = folders.knownHosts;
  const hosts = new SshHosts({ env, askpass: ownArgv(), log, ...(known !== undefined && { known }) });
  const shares = folders.shares === undefined ? undefined : sharePoints(runner, folders.shares, log);
  const ports = {
    local: localHost(runner),
    ssh: (settings: SshSettings) => {
      const { value, release } = hosts.lease(settings);
      return { value: measuredHost(value, tell), release };
    },
    ...(shares && { share: shares.lease.bind(shares) }),
  };
  const close = async () => {
    await shares?.close();
    await hosts.close();
  };
  return { ports, close };
}

function sharePoints(runner: CommandRunner, folder: string, log: Log): SharePoints {
  const mounts = new Mounts(runner, runner, "/proc/self/mountinfo", folder);
  return new SharePoints({ attachers: shareAttachers({ hostMounts: false }), mounts, folder, log });
}
