import { cleanUpMs } from "../../lib/copies/cleanup.ts";
import type { Call, Log } from "../../lib/core/call.ts";
import { CsiError, detailOf } from "../../lib/core/errors.ts";
import { PeriodicRounds } from "../../lib/core/time.ts";
import { parseEndpoint } from "../../lib/csi/endpoint.ts";
import { lockedId } from "../../lib/io/locked-id.ts";
import type { CommandRunner } from "../../lib/io/runner.ts";
import { commandSocketOf, type RunCommand, serveCommands } from "../../lib/observe/command-socket.ts";
import { ownSocket } from "./aliases.ts";
import type { ServeOptions } from "./options.ts";

/** Rounds in which a process removes what copies have left. */
export const cleanUpRounds = (cleanUp: (call: Call) => Promise<void>, log: Log): PeriodicRounds =>
  new PeriodicRounds(cleanUpMs, async signal => {
    try {
      await cleanUp({ id: "copies", signal, log, secrets: {} });
    } catch (error) {
      log.warn("cannot look for what copies have left", { reason: detailOf(error) });
    }
  });

/**
 * The id that this process takes over from the one that served the same CSI socket before, whose copies it then continues at once. The
 * folder of the socket is the pod's own and outlives its containers. Undefined without a socket.
 */
export async function lockedIdOf({ endpoints }: Pick<ServeOptions, "endpoints">, runner: CommandRunner) {
  const socket = ownSocket(endpoints);
  return socket === undefined ? undefined : lockedId(`${socket}.owner`, runner);
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
