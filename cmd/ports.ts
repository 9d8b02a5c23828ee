import type { Log } from "../lib/core/call.ts";
import type { Ports } from "../lib/drivers/module.ts";
import { localRunner } from "../lib/io/local.ts";
import { localHost } from "../lib/io/local-host.ts";
import { SshHosts } from "../lib/io/ssh/hosts.ts";
import type { Host } from "./host.ts";
import { toolEnvironment } from "./tools.ts";

/** Where a compiled executable finds its own program. */
const compiledProgram = "/$bunfs/";

/** How this program is started anew: its executable, and from sources their first file too. */
export function ownArgv(): readonly string[] {
  const [, source = compiledProgram] = process.argv;
  return source.startsWith(compiledProgram) ? [process.execPath] : [process.execPath, source];
}

/** What drivers reach the outside through; `close` ends the logins. */
export function openPorts(host: Host, log: Log): { readonly ports: Ports; readonly close: () => Promise<void> } {
  const env = toolEnvironment(host.env);
  const hosts = new SshHosts({ env, askpass: ownArgv(), log });
  const ports = { local: localHost(localRunner({ env })), ssh: hosts.lease.bind(hosts) };
  return { ports, close: () => hosts.close() };
}
