import { connect } from "node:net";
import { type Process, processesBelow } from "../../scripts/cluster/processes.ts";
import { clientPid } from "../../scripts/nomad/machine.ts";
import type { Client } from "../../scripts/nomad/place.ts";

/** All processes of a client; those in containers too. */
export const processesOf = async (client: Client): Promise<readonly Process[]> =>
  processesBelow(await clientPid(client));

/** Whether a process answers on a socket. */
export const answers = (path: string): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(path);
    socket.once("connect", () => resolve(true));
    socket.once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
