import { machinePid } from "../../scripts/cluster/machine.ts";
import { type Process, processesBelow } from "../../scripts/cluster/processes.ts";

/** All processes of the cluster's machine. */
export const processes = async (): Promise<readonly Process[]> => processesBelow(await machinePid());

/** csimux processes in pods of a kind, without tini. */
export async function csimux(mode: "controller" | "node"): Promise<readonly Process[]> {
  const all = await processes();
  return all.filter(
    ({ command }) => /^\/usr\/local\/bin\/csimux serve /.test(command) && command.includes(`--mode=${mode}`),
  );
}
