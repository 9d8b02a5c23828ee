import type { Command } from "commander";
import { messageOf } from "../../../lib/core/errors.ts";
import { mapLimit } from "../../../lib/core/semaphore.ts";
import type { Host } from "../../host.ts";
import { exit, UsageError, visible } from "../../terminal/terminal.ts";
import type { Cluster, ClusterFlags, CsimuxPod } from "../cluster.ts";
import { addMove } from "../move/command.ts";
import { pluginName } from "./plugin-name.ts";

/** How many pods write their part of a bug report at once. */
const atOnce = 4;

/** Flags of `csimux status` for what one process does: a page, a bug report, and an answer without an end. */
const forOne = /^--(?:html|bundle|watch|cluster|endpoint|status-socket|help)\b/;

/**
 * What precedes the status of one of several controllers. Readers of JSON and YAML get one document each, which names
 * the pod as "host".
 */
function titleOf({ name, node }: CsimuxPod, words: readonly string[]): string {
  const format = /(?:^| )(?:-o|--output)[ =]?(json|yaml)(?: |$)/.exec(words.join(" "))?.[1];
  if (format === undefined) return `controller ${visible(name)} on ${visible(node)}\n`;
  return format === "yaml" ? "---\n" : "";
}

interface PodFlags extends ClusterFlags {
  readonly node?: string;
}

/** `csimux kubectl`, which is also what the executable does under the name kubectl-csimux. */
export function addKubectl(program: Command, host: Host): void {
  const kubectl = program
    .command("kubectl")
    .description(
      `the kubectl plugin: runs csimux in its pods with kubectl exec and your rights; as ${pluginName} on the PATH: kubectl csimux`,
    );
  const common = (command: Command, podNamespace = "-n, --namespace <name>"): Command =>
    command
      .option("--context <name>", "the context of kubectl's configuration")
      .option("--kubeconfig <file>", "kubectl's configuration")
      .option(podNamespace, "the namespace of csimux's pods (default: all are searched)")
      .option("-l, --selector <labels>", "the labels of csimux's pods", "app.kubernetes.io/name=csimux");
  const inPod = (
    name: string,
    about: string,
    work: (pod: CsimuxPod, cluster: Cluster, words: readonly string[], node: string | undefined) => Promise<number>,
  ) =>
    common(kubectl.command(name))
      .description(`${about}; all other flags are those of csimux ${name}`)
      .argument("[words...]")
      .option("--node <name>", "ask the pod on this node instead of a controller")
      .allowUnknownOption()
      .action((_: unknown, flags: PodFlags, command: Command) =>
        guarded(host, flags, async cluster => work(await cluster.pod(flags.node), cluster, command.args, flags.node)),
      );
  inPod(
    "status",
    "show the status of csimux: of each controller, and nodes with one initiator name, or of the pod on a node",
    async (pod, cluster, words, node) => {
      const isForOne = node !== undefined || words.some(word => forOne.test(word));
      const pods = isForOne ? [pod] : await cluster.replicas();
      const codes: number[] = [];
      for (const each of pods) {
        if (pods.length > 1) host.out(titleOf(each, words));
        codes.push(await cluster.show(each, ["status", ...words]));
      }
      if (isForOne) return Math.max(...codes);
      const { sayEqualNodes } = await import("./equal-nodes.ts");
      return Math.max(...codes, await sayEqualNodes(cluster, host));
    },
  );
  inPod(
    "topology",
    "show where the nodes and classes of the cluster reach the connections",
    async (pod, cluster, words) => {
      const given = await cluster.read("nodes,storageclasses");
      return cluster.show(pod, ["topology", "--nodes", "-", ...words], JSON.stringify(given));
    },
  );
  inPod("volumes", "compare volumes with the cluster's PersistentVolumes", async (pod, cluster, words) => {
    const given = await cluster.read("pv,pvc", "-A");
    return cluster.show(pod, ["volumes", ...words, "--pvs", "-"], JSON.stringify(given));
  });
  inPod("copies", "list, make and cancel copies between connections", async (pod, cluster, words) => {
    // These two read what is wanted.
    const reads = words.includes("plan") || words.includes("begin");
    return cluster.show(pod, ["copies", ...words], reads ? await host.stdin() : undefined);
  });
  common(kubectl.command("bundle"))
    .description("write the bug reports of all csimux pods, without secrets, to a new file or to standard output (-)")
    .argument("<file>")
    .action((file: string, flags: ClusterFlags) => guarded(host, flags, cluster => bundle(cluster, file, host)));
  common(kubectl.command("explain"), "--pod-namespace <name>")
    .option("-n, --namespace <name>", "the namespace of the claim (default: that of the context)")
    .description("follow a claim to its volume, connection, storage system and node, and say where it hangs")
    .argument("<claim>", "a name, or namespace/name")
    .addHelpText(
      "after",
      "\nExit code 0: nothing is wrong; 1: it hangs, or something is missing; 2: it could not be followed.",
    )
    .action((claim: string, { namespace, podNamespace, ...flags }: ClusterFlags & { readonly podNamespace?: string }) =>
      guarded(host, { ...flags, ...(podNamespace !== undefined && { namespace: podNamespace }) }, async cluster => {
        const { explain } = await import("./explain.ts");
        return explain(claim, namespace, cluster, host);
      }),
    );
  addMove(kubectl, host);
}

async function bundle(cluster: Cluster, file: string, host: Host): Promise<number> {
  const pods = await cluster.pods();
  if (pods.length === 0) throw new UsageError(cluster.nonePods);
  const parts = await mapLimit(pods, atOnce, async pod => {
    const { stdout, stderr } = await cluster.exec(pod, ["status", "--bundle", "-"]);
    return `######## pod ${pod.namespace}/${pod.name} on ${pod.node} ########\n${stdout}${stderr}`;
  });
  if (file === "-") host.out(parts.join("\n"));
  else await (await import("../../status/bundle.ts")).writeBundle(file, parts.join("\n"));
  return 0;
}

async function guarded(host: Host, flags: ClusterFlags, work: (cluster: Cluster) => Promise<number>): Promise<void> {
  try {
    const { Cluster } = await import("../cluster.ts");
    exit(await work(new Cluster(flags, host)));
  } catch (error) {
    host.err(`csimux: ${messageOf(error)}\n`);
    exit(2);
  }
}
