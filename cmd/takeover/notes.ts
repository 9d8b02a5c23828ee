import type { TakenOver } from "../../lib/takeover/connections.ts";
import type { OldDeployment, Refusal } from "../../lib/takeover/old.ts";
import type { MovedVolumes } from "../../lib/takeover/volumes.ts";
import type { TakeoverOptions } from "./options.ts";

/** What was taken over, what was not, and what to do in which order. `words` are by old driver name. */
export const notes = (
  options: TakeoverOptions,
  taken: readonly TakenOver[],
  refused: readonly Refusal[],
  words: ReadonlyMap<string, readonly string[]>,
  volumes: MovedVolumes | undefined,
): string =>
  [
    "# Taken over from democratic-csi",
    "",
    "| Old driver | Connection | Its values |",
    "| --- | --- | --- |",
    ...taken.map(({ old, connection }) => `| ${old.name} | ${connection} | ${old.file} |`),
    "",
    "Claims, volumes, snapshots and classes of these names stay as they are. One csimux answers to all of them, and to",
    `${options.name} for what is new: a class of that name says in its parameter "connection" which connection it means.`,
    ...refused.flatMap(({ file, why }) => ["", `**${file} was not taken over**: ${why}.`]),
    ...taken.flatMap(each => section(each, words.get(each.old.name) ?? [])),
    ...order(options, taken),
    ...(volumes === undefined ? [] : moving(options, volumes)),
    "",
  ].join("\n");

function section({ old, connection, words }: TakenOver, more: readonly string[]): readonly string[] {
  const all = [...words.map(each => `${connection}.yaml: ${each}`), ...more];
  const title = ["", `## What is different for ${old.name}`, ""];
  return [...title, ...(all.length === 0 ? ["Nothing."] : all.map(each => `- ${each}`))];
}

const release = ({ release: known }: OldDeployment): string =>
  known === undefined ? "<release> --namespace <namespace>" : `${known.name} --namespace ${known.namespace}`;

const order = ({ out, image, namespace }: TakeoverOptions, taken: readonly TakenOver[]): readonly string[] => [
  "",
  "## In this order",
  "",
  "Pods go on running throughout. Between steps 3 and 4 nothing new is mounted, made or removed.",
  "",
  `1. Read what is different, and look through the files.${image === undefined ? " Write the image of csimux into controller.yaml and node.yaml." : ""} \`csimux validate --strict ${out}\` must stay clean; with \`--online\` it also logs in to each storage.`,
  "2. Keep a copy: `kubectl get pv,csidrivers,storageclasses,volumesnapshotclasses,volumesnapshotcontents -o yaml > before.yaml`.",
  `3. ${taken.map(({ old }) => `\`helm uninstall ${release(old)}\``).join(", ")}. This removes the old drivers, their classes and Secrets, and no volume.`,
  `4. \`kubectl apply -k ${out}\`, which makes classes and Secrets anew under the same names.`,
  `5. \`kubectl -n ${namespace} rollout status deploy/csimux-controller ds/csimux-node\`, then \`kubectl -n ${namespace} exec deploy/csimux-controller -c csimux -- csimux status\`. \`kubectl get csinodes -o yaml\` must show every name on every node.`,
  `6. Make and delete a claim of each class. The way back: remove the line namespace.yaml from \`${out}/kustomization.yaml\`, so that the namespace and everything else in it stay, then \`kubectl delete -k ${out}\` and \`helm install\` with the old values.`,
];

const moving = ({ name }: TakeoverOptions, { moved, refused, others }: MovedVolumes): readonly string[] => [
  "",
  `## Volumes under the one name ${name}`,
  "",
  "Not needed: volumes work under their old names for ever. To be rid of an old name, move its volumes one by one, after all of",
  "the above, as the file of each in `persistent-volumes/` says. Snapshots stay under the old name, and no claim of the new name can",
  "be made from them. When no volume and no snapshot of a name is left, take its --alias, its sidecars and its classes away.",
  "",
  `${moved.length} volumes, and ${others} of other drivers.`,
  ...refused.map(each => `- stays as it is: ${each}`),
];
