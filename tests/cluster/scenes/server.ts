import { inMachine } from "../../../scripts/cluster/machine.ts";
import { eventually } from "../kube.ts";

const listens = async (host: string, port: number): Promise<boolean> =>
  (await inMachine(["bash", "-c", `: </dev/tcp/${host}/${port}`])).code === 0;

/** Starts a server on the cluster's machine, and waits until it listens there. */
export async function startServer(argv: readonly string[], host: string, port: number): Promise<void> {
  if (await listens(host, port)) throw new Error(`something listens on ${host}:${port} already`);
  void inMachine(argv, 3_600_000);
  await eventually(`${host}:${port} listens`, 60_000, () => listens(host, port));
}

/** Ends the server of a script, and waits until it listens no more. Its parent is outside the machine, so its processes show it only there. */
export async function stopServer(script: string, host: string, port: number): Promise<void> {
  await inMachine(["pkill", "-f", script]);
  await eventually(`${host}:${port} is closed`, 60_000, async () => !(await listens(host, port)));
}
