import { mapLimit } from "../../../lib/core/semaphore.ts";
import { at, textAt } from "../../../lib/lint/lint-input.ts";
import { type CsimuxPod, inPodOf } from "../cluster.ts";
import { handleOf, type Moving } from "./cluster-objects.ts";
import type { Kubectl } from "./kubectl.ts";
import { claimsInPod, placeOfObject } from "./objects/objects.ts";

/** How many nodes are checked at once. */
const atOnce = 8;

/** What may still use volumes, in words; `isSure`: it was seen, and not only that it could not be asked. */
interface Holder {
  readonly text: string;
  readonly isSure: boolean;
}

const seen = (text: string): Holder => ({ text, isSure: true });
const unknown = (text: string): Holder => ({ text, isSure: false });

/**
 * What still uses the volumes; undefined if it is proved that nothing does: no pod names a claim, no VolumeAttachment names a volume,
 * and csimux on the nodes has none of them staged. Where `attachRequired` is false, only the last check finds a mount. `nodes`: where the
 * pods ran; if empty, every node is checked.
 */
export async function holders(
  kubectl: Kubectl,
  claims: readonly Moving[],
  nodes: readonly string[],
): Promise<Holder | undefined> {
  const pods = await podsUsing(kubectl, claims);
  if (pods.length > 0) return seen(`pods still use the claims: ${pods.join(", ")}`);
  const volumes = claims.flatMap(each => [each.old, each.fresh]).flatMap(each => each ?? []);
  const names = new Set(volumes.map(each => placeOfObject(each).name));
  const attached = (await kubectl.list("volumeattachments"))
    .filter(each => names.has(textAt(each, "spec", "source", "persistentVolumeName") ?? ""))
    .map(each => textAt(each, "spec", "nodeName"));
  if (attached.length > 0) return seen(`volumes are still attached to ${attached.join(", ")}`);
  const handles = [...volumes.map(handleOf), ...claims.map(({ source }) => source)];
  return stagedOn(kubectl, new Set(handles), nodes);
}

/** The pods that name one of the claims, also those that have ended. */
export async function podsUsing(kubectl: Kubectl, claims: readonly Moving[]): Promise<readonly string[]> {
  const using: string[] = [];
  for (const namespace of new Set(claims.map(each => each.namespace))) {
    const names = claims.filter(each => each.namespace === namespace).map(({ name }) => name);
    const pods = await kubectl.list("pods", namespace);
    using.push(
      ...pods
        .filter(pod => claimsInPod(pod["spec"]).some(each => names.includes(each)))
        .map(pod => placeOfObject(pod).name),
    );
  }
  return using;
}

/** Why volumes may still be staged. A node that no longer exists has nothing staged. */
async function stagedOn(
  kubectl: Kubectl,
  handles: ReadonlySet<string>,
  nodes: readonly string[],
): Promise<Holder | undefined> {
  const pods = (await kubectl.cluster.pods()).filter(each => isOnNode(each));
  const asked = nodes.length === 0 ? [...new Set(pods.map(({ node }) => node))] : nodes;
  const answers = await mapLimit(asked, atOnce, async node => {
    const here = pods.filter(each => each.node === node);
    if (here.length === 0 && (await kubectl.get("node", node)) === undefined) return undefined;
    if (here.length === 0) return unknown(`no pod of csimux on node ${node} says whether volumes are staged there`);
    const lists = await Promise.all(here.map(pod => stagedIn(kubectl, pod)));
    if (lists.flat().some(each => each !== undefined && handles.has(each)))
      return seen(`node ${node} still has a volume staged`);
    return lists.some(list => list === undefined)
      ? unknown(
          `csimux on node ${node} does not report which volumes are staged; update it if it is older than this csimux`,
        )
      : undefined;
  });
  return answers.find(each => each?.isSure) ?? answers.find(each => each !== undefined);
}

const isOnNode = ({ isController, container }: CsimuxPod): boolean =>
  !isController || JSON.stringify(container["args"] ?? []).includes("node");

/** The volumes that a pod has staged; undefined if it does not report them. */
async function stagedIn(kubectl: Kubectl, pod: CsimuxPod): Promise<readonly string[] | undefined> {
  const { stdout } = await kubectl.run(inPodOf(pod, ["status", "-o", "json"], false));
  try {
    const value: unknown = at(JSON.parse(stdout), "staged");
    return Array.isArray(value) ? value.map(String) : undefined;
  } catch {
    return undefined;
  }
}
