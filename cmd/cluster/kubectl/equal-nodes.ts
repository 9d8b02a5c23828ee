import { groupBy } from "../../../lib/core/group-by.ts";
import { mapLimit } from "../../../lib/core/semaphore.ts";
import type { StatusAnswer } from "../../../lib/observe/status.ts";
import type { Host } from "../../host.ts";
import { visible } from "../../terminal/terminal.ts";
import { type Cluster, type CsimuxPod, isCentral } from "../cluster.ts";

/** How many nodes are asked at once. */
const atOnce = 16;

/**
 * Says which nodes have one initiator name or host NQN, as machines that were cloned. Nodes reach a controller only by
 * their ids, which may lack these names: only here are the answers of several together. Returns 1 if there are such
 * nodes, else 0.
 */
export async function sayEqualNodes(cluster: Cluster, host: Host): Promise<number> {
  const pods = (await cluster.pods()).filter(pod => pod.isReady && !isCentral(pod));
  const named = await mapLimit(pods, atOnce, async pod => {
    const names = await initiatorsOf(pod, cluster);
    return names.map(name => ({ name, node: pod.node }));
  });
  let code = 0;
  for (const [name, all] of groupBy(named.flat(), each => each.name)) {
    const nodes = [...new Set(all.map(({ node }) => node))];
    if (nodes.length < 2) continue;
    const remedy = "give each a name of its own (iscsi-iname, nvme gen-hostnqn) while no pod there uses a disk";
    const text = `nodes ${nodes.join(", ")} are one to storage systems, by the name ${name}; ${remedy}`;
    host.err(`${visible(text)}\n`);
    code = 1;
  }
  return code;
}

/** The names of a node that answers; none of one that does not, which its own status shows. */
async function initiatorsOf(pod: CsimuxPod, cluster: Cluster): Promise<readonly string[]> {
  const { stdout } = await cluster.exec(pod, ["status", "-o", "json"]);
  try {
    return (JSON.parse(stdout) as Pick<StatusAnswer, "initiators">).initiators ?? [];
  } catch {
    return [];
  }
}
