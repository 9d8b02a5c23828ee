import { copyByStream } from "../../lib/copy/by-stream.ts";
import { Copies } from "../../lib/copy/copies.ts";
import { Janitor, janitorMs } from "../../lib/copy/janitor.ts";
import { recordIn, writeRecord } from "../../lib/copy/record.ts";
import { CopyRemoval } from "../../lib/copy/removal.ts";
import type { Log } from "../../lib/core/call.ts";
import { CsiError, detailOf } from "../../lib/core/errors.ts";
import type { CopySettings } from "../../lib/core/proxy.ts";
import { PeriodicRounds } from "../../lib/core/time.ts";
import { parseEndpoint } from "../../lib/csi/endpoint.ts";
import type { Driver } from "../../lib/drivers/driver.ts";
import { heldId } from "../../lib/io/held-id.ts";
import type { CommandRunner } from "../../lib/io/runner.ts";
import type { Connections } from "../../lib/mux/connections.ts";
import { commandSocketOf, type RunCommand, serveCommands } from "../../lib/observe/command-socket.ts";
import { ownSocket } from "./aliases.ts";
import type { ServeOptions } from "./options.ts";

/** The copies between the connections of this process, and the rounds that remove what they have left. */
export function openCopies(connections: Connections, settings: () => CopySettings, held: string | undefined, log: Log) {
  const use = <T>(name: string, work: (driver: Driver) => Promise<T>) =>
    connections.use(name, "retry", ({ driver }) => work(driver));
  const copies = new Copies({ use, stream: copyByStream, settings, log, held });
  const janitor = new Janitor({ copies, use, names: () => connections.names() });
  const rounds = new PeriodicRounds(janitorMs, async signal => {
    try {
      await janitor.round({ id: "copies", signal, log, secrets: {} });
    } catch (error) {
      log.warn("cannot look for what copies have left", { reason: detailOf(error) });
    }
  });
  const engine = { copies, removal: new CopyRemoval(use), text: { read: recordIn, write: writeRecord } };
  return { engine, rounds };
}

/**
 * The id that this process takes over from the one that served the same CSI socket before, whose copies it then continues at once. The
 * folder of the socket is the pod's own and outlives its containers. Undefined without a socket.
 */
export async function copyOwner({ endpoints }: Pick<ServeOptions, "endpoints">, runner: CommandRunner) {
  const socket = ownSocket(endpoints);
  return socket === undefined ? undefined : heldId(`${socket}.owner`, runner);
}

/** Opens the command socket. If that fails, volumes are served nevertheless. */
export async function beginCommands({ endpoints }: Pick<ServeOptions, "endpoints">, run: RunCommand, log: Log) {
  const [socket] = endpoints.map(parseEndpoint).flatMap(each => (each.kind === "unix" ? [each.path] : []));
  if (socket === undefined) return () => {};
  try {
    return (await serveCommands(commandSocketOf(socket), run, log)).close;
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    log.warn(`claims cannot be moved: ${error.message}`);
    return () => {};
  }
}
