import { groupBy } from "../../../lib/core/group-by.ts";
import { mapLimit } from "../../../lib/core/semaphore.ts";
import { listAt, textAt } from "../../../lib/lint/lint-input.ts";
import type { ConnectionStatus, ReplicaStatus, Status, StatusAnswer } from "../../../lib/observe/status.ts";
import type { Host } from "../../host.ts";
import { isHealthy, severity } from "../../status/problems.ts";
import { statusText } from "../../status/text.ts";
import { UsageError, visible } from "../../terminal/terminal.ts";
import { type Cluster, type CsimuxPod, isCentral } from "../cluster.ts";

/** How many replicas are asked at once. */
const atOnce = 4;
const nodesAtOnce = 16;

/**
 * The names of the leases by which the sidecars of a driver elect their leaders (csi-provisioner 6.3 and csi-snapshotter 8.6 in their main.go,
 * csi-lib-utils in leaderelection: other characters than letters and digits become "-"). Their holder is the pod.
 */
const leases = (driver: string): ReadonlyMap<string, string> => {
  const name = driver.replace(/[^A-Za-z0-9-]/g, "-");
  return new Map([
    [name, "provisioner"],
    [`external-attacher-leader-${name}`, "attacher"],
    [`external-resizer-${name}`, "resizer"],
    [`external-snapshotter-leader-${name}`, "snapshotter"],
  ]);
};

/** The format that words ask for; undefined if they ask for something that one process alone can do. */
export function formatOf(words: readonly string[]): "text" | "json" | "yaml" | undefined {
  if (words.some(word => /^--(?:html|bundle|watch|cluster|endpoint|status-socket|help)\b/.test(word))) return undefined;
  const at = words.findIndex(word => /^(?:-o|--output)/.test(word));
  const word = words[at] ?? "";
  const format = at < 0 ? "text" : (/^(?:-o|--output)=?(.+)$/.exec(word)?.[1] ?? words[at + 1]);
  return format === "text" || format === "json" || format === "yaml" ? format : undefined;
}

/** The words without the format. */
const withoutFormat = (words: readonly string[]): readonly string[] =>
  words.filter((word, index) => !/^(?:-o|--output)/.test(word) && !/^(?:-o|--output)$/.test(words[index - 1] ?? ""));

/** The status of a pod, or why there is none. */
async function ask(pod: CsimuxPod, words: readonly string[], cluster: Cluster) {
  const { stdout, stderr } = await cluster.exec(pod, ["status", ...words, "-o", "json"]);
  try {
    return { status: JSON.parse(stdout) as Status & Pick<StatusAnswer, "initiators"> };
  } catch {
    return { problem: stderr.trim().split("\n")[0] || "no answer" };
  }
}

/** Shows the status of these pods: of several as one, with the leader of each sidecar. Returns the exit code of `csimux status`. */
export async function showStatus(
  pods: readonly CsimuxPod[],
  cluster: Cluster,
  words: readonly string[],
  host: Host,
): Promise<number> {
  const format = formatOf(words);
  const [one, another] = pods;
  if (one && (!another || format === undefined)) return cluster.show(one, ["status", ...words]);
  const asked = await mapLimit(pods, atOnce, async pod => ({
    pod,
    ...(await ask(pod, withoutFormat(words), cluster)),
  }));
  const answers = asked.flatMap(({ status }) => (status ? [status] : []));
  const [first] = answers;
  if (!first) throw new UsageError(asked.map(({ pod, problem }) => `pod ${pod.name}: ${problem}`).join("; "));
  const leads = await leadersIn(pods[0]?.namespace ?? "", first.name, cluster);
  const replicas = asked.map(({ pod, problem }): ReplicaStatus => {
    const led = leads?.flatMap(({ sidecar, holder }) => (holder.includes(pod.name) ? [sidecar] : []));
    return { pod: pod.name, node: pod.node, leads: led, problem };
  });
  const status: Status = { ...merged(answers, first), replicas };
  if (format === "text") host.out(replicasText(replicas) + statusText(status, host.colour));
  else if (format === "json") host.out(`${JSON.stringify(status, undefined, 2)}\n`);
  else host.out((await import("../../../lib/yaml/print.ts")).yamlText(status));
  return isHealthy(status) && answers.length === pods.length ? 0 : 1;
}

/**
 * Says which nodes have one initiator name or host NQN, as machines that were cloned. Nodes reach a controller only by their ids, which may lack
 * these names: only here are the answers of several together. Returns 1 if there are such nodes, else 0.
 */
export async function sayEqualNodes(cluster: Cluster, host: Host): Promise<number> {
  const pods = (await cluster.pods()).filter(pod => pod.isReady && !isCentral(pod));
  const named = await mapLimit(pods, nodesAtOnce, async pod => {
    const { status } = await ask(pod, [], cluster);
    return (status?.initiators ?? []).map(name => ({ name, node: pod.node }));
  });
  let code = 0;
  for (const [name, all] of groupBy(named.flat(), each => each.name)) {
    const nodes = [...new Set(all.map(({ node }) => node))];
    if (nodes.length < 2) continue;
    const remedy = "give each a name of its own (iscsi-iname, nvme gen-hostnqn) while no pod there uses a disk";
    host.err(`${visible(`nodes ${nodes.join(", ")} are one to storage systems, by the name ${name}; ${remedy}`)}\n`);
    code = 1;
  }
  return code;
}

/** The pods that lead, by sidecar; undefined without the right to see the leases. */
async function leadersIn(namespace: string, driver: string, cluster: Cluster) {
  const sidecars = leases(driver);
  try {
    return listAt(await cluster.read("leases", "-n", namespace), "items").flatMap(each => {
      const sidecar = sidecars.get(textAt(each, "metadata", "name") ?? "");
      const holder = textAt(each, "spec", "holderIdentity");
      return sidecar === undefined || holder === undefined ? [] : [{ sidecar, holder }];
    });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return undefined;
  }
}

const replicasText = (replicas: readonly ReplicaStatus[]): string =>
  replicas
    .map(({ pod, node, leads, problem }) => {
      const led = leads === undefined ? "" : `, leads ${leads.join(", ") || "no sidecar"}`;
      return visible(`controller ${pod} on ${node}${problem === undefined ? led : `: ${problem}`}`);
    })
    .join("\n")
    .concat("\n");

/** One status of several processes with the same files. Each has made other calls and checked the storage systems itself. */
function merged(all: readonly Status[], first: Status): Status {
  const names = [...new Set(all.flatMap(each => each.connections.map(({ name }) => name)))].sort();
  const health = new Map(
    all
      .flatMap(each => each.health)
      .sort((a, b) => (a.since < b.since ? 1 : -1))
      .map(each => [[each.of, each.connection, each.volume, each.storage, each.reason].join("\n"), each] as const),
  );
  const copies = all.flatMap(each => each.copies ?? []);
  return {
    ...first,
    node: undefined,
    host: undefined,
    connections: names.map(name =>
      oneOf(all.flatMap(each => each.connections.filter(connection => connection.name === name))),
    ),
    health: [...health.values()],
    calls: all.flatMap(each => each.calls),
    jobs: all.flatMap(each => each.jobs),
    ...(copies.length > 0 && { copies }),
    copied: all.flatMap(each => each.copied ?? []),
  };
}

/** The worst state, first seen by any of them, with the latest calls and figures. */
function oneOf(views: readonly ConnectionStatus[]): ConnectionStatus {
  const [worst] = [...views].sort(
    (a, b) => severity(b) - severity(a) || ((a.since ?? "") < (b.since ?? "") ? -1 : 1),
  ) as [ConnectionStatus];
  const latest = <T extends { readonly at: string }>(pick: (view: ConnectionStatus) => T | undefined): T | undefined =>
    views.map(pick).reduce((last, each) => (each && !(last && last.at > each.at) ? each : last), undefined);
  return {
    ...worst,
    inUse: views.reduce((sum, each) => sum + each.inUse, 0),
    freeBytes: latest(each => each.freeBytes),
    volumes: latest(each => each.volumes),
    lastSuccess: latest(each => each.lastSuccess),
    lastFailure: latest(each => each.lastFailure),
    lastStorageFailure: latest(each => each.lastStorageFailure),
  };
}
