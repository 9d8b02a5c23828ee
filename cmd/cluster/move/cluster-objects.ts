import { encodeHandle, parseHandle } from "../../../lib/core/handle.ts";
import type { Mapping } from "../../../lib/core/mapping.ts";
import { textAt } from "../../../lib/lint/lint-input.ts";
import type { Kubectl } from "./kubectl.ts";
import { type MoveNote, notedVolume, noteOf } from "./objects/note.ts";
import { type ClaimName, claimOfVolume, claimText, placeOfObject } from "./objects/objects.ts";
import type { MoveOptions } from "./options.ts";
import { MoveRefusal } from "./refusal.ts";

/** The objects of a cluster that a move concerns. */
export interface ClusterObjects {
  readonly claims: readonly Mapping[];
  readonly volumes: readonly Mapping[];
  readonly pods: readonly Mapping[];
  /** StatefulSets, Deployments, ReplicaSets and DaemonSets. */
  readonly workloads: readonly Mapping[];
  readonly autoscalers: readonly Mapping[];
  readonly nodes: readonly Mapping[];
  readonly classes: readonly Mapping[];
  readonly served: ServedDriver;
}

/** A claim that is to be moved, or is being moved. During the switch, the claim does not exist for a second. */
export interface Moving extends ClaimName {
  readonly claim: Mapping | undefined;
  /** Its PersistentVolume before the move, the CSI id of that for the driver `driver`, and that driver: csimux's own, not an alias. */
  readonly old: Mapping | undefined;
  readonly source: string;
  readonly driver: string | undefined;
  /** Its PersistentVolume after the move. */
  readonly fresh: Mapping | undefined;
  readonly note: MoveNote | undefined;
}

/** The driver name that a controller serves, and its aliases with their connections. */
export interface ServedDriver {
  readonly name: string;
  readonly aliases: ReadonlyMap<string, string>;
}

/** The kinds that are read in each namespace. */
const namespaced = "pvc,pods,statefulsets,deployments,replicasets,daemonsets,horizontalpodautoscalers";

/** Reads the cluster: what belongs to no namespace, and these namespaces. */
export async function readObjects(
  kubectl: Kubectl,
  namespaces: readonly string[],
): Promise<Omit<ClusterObjects, "served">> {
  const objects = [...(await kubectl.list("pv,nodes,storageclasses"))];
  for (const namespace of namespaces) objects.push(...(await kubectl.list(namespaced, namespace)));
  const of = (...kinds: readonly string[]) => objects.filter(each => kinds.includes(String(each["kind"])));
  return {
    claims: of("PersistentVolumeClaim"),
    volumes: of("PersistentVolume"),
    pods: of("Pod"),
    workloads: of("StatefulSet", "Deployment", "ReplicaSet", "DaemonSet"),
    autoscalers: of("HorizontalPodAutoscaler"),
    nodes: of("Node"),
    classes: of("StorageClass"),
  };
}

/** The claims that the command line names or selects. Throws MoveRefusal if there is none. */
export async function claimsMeant(
  kubectl: Kubectl,
  { what }: Pick<MoveOptions, "what">,
): Promise<readonly ClaimName[]> {
  if ("claims" in what) return what.claims.map(name => ({ namespace: what.namespace, name }));
  const { connection, namespace } = what;
  const found = (await kubectl.list("pv")).flatMap(volume => {
    const claim = claimOfVolume(volume);
    const handle = parseHandle(textAt(volume, "spec", "csi", "volumeHandle") ?? "", "volume");
    const isMeant = handle?.connection === connection && (namespace === undefined || claim?.namespace === namespace);
    // The old volume of a finished move may still exist; its claim has another volume.
    const isUsed = textAt(volume, "status", "phase") === "Bound" || noteOf(volume) !== undefined;
    return claim && isMeant && isUsed ? [{ namespace: claim.namespace, name: claim.name }] : [];
  });
  if (found.length === 0)
    throw new MoveRefusal(
      `no claim${namespace === undefined ? "" : ` of the namespace ${namespace}`} has a volume on connection ${connection}`,
    );
  return [...new Map(found.map(each => [claimText(each), each])).values()];
}

/** A claim with its volumes and its note. Throws MoveRefusal for a damaged note. */
export function movingOf(objects: Pick<ClusterObjects, "claims" | "volumes">, { namespace, name }: ClaimName): Moving {
  const claim = objects.claims.find(each => claimText(placeOfObject(each)) === claimText({ namespace, name }));
  const volumeOf = (wanted: string | undefined) => objects.volumes.find(each => placeOfObject(each).name === wanted);
  const noted = notedVolume(objects.volumes, { namespace, name });
  const note = noted && noteOf(noted);
  const old = noted ?? volumeOf(textAt(claim, "spec", "volumeName"));
  const driver = textAt(old, "spec", "csi", "driver");
  return { namespace, name, claim, old, source: handleOf(old), driver, fresh: note && volumeOf(note.volume), note };
}

/** A claim with the id and the driver name of its old volume outside of the alias that has it, if csimux serves that as an alias. */
export function withoutAlias<T extends Pick<Moving, "source" | "driver">>(
  volume: T,
  { name, aliases }: ServedDriver,
): T {
  const connection = aliases.get(volume.driver ?? "");
  if (connection === undefined) return volume;
  const source = parseHandle(volume.source, "volume")
    ? volume.source
    : encodeHandle({ kind: "volume", connection, id: volume.source });
  return { ...volume, source, driver: name };
}

/** The names of the other PersistentVolumes of the same storage, also under an alias: a second one gives another claim the same files. */
export function sharersOf(
  { volumes, served }: Pick<ClusterObjects, "volumes" | "served">,
  volume: unknown,
): readonly string[] {
  const idOf = (each: unknown): string =>
    JSON.stringify(withoutAlias({ source: handleOf(each), driver: textAt(each, "spec", "csi", "driver") }, served));
  const { name } = placeOfObject(volume);
  return volumes
    .filter(each => placeOfObject(each).name !== name && handleOf(each) !== "" && idOf(each) === idOf(volume))
    .map(each => placeOfObject(each).name);
}

/** The CSI id of a PersistentVolume. */
export const handleOf = (volume: unknown): string => textAt(volume, "spec", "csi", "volumeHandle") ?? "";
