import { mkdir, open, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { errnoOf } from "../../../lib/core/errors.ts";
import { modules } from "../../../lib/drivers/index.ts";
import type { TakenOverConnection } from "../../../lib/takeover/connections.ts";
import type { OldDeployment, Refusal } from "../../../lib/takeover/old.ts";
import { privilegedBy } from "../../../lib/takeover/privileges.ts";
import type { MovedVolumes } from "../../../lib/takeover/volumes.ts";
import { UsageError } from "../../terminal/terminal.ts";
import type { TakeoverOptions } from "./options.ts";

/** The notes: what was taken over, what was not, and the steps in order. `words` are by old driver name. */
export const notes = (
  options: TakeoverOptions,
  converted: readonly TakenOverConnection[],
  refused: readonly Refusal[],
  words: ReadonlyMap<string, readonly string[]>,
  volumes: MovedVolumes | undefined,
): string =>
  [
    "# Taken over from democratic-csi",
    "",
    "| Old driver | Connection | Its values |",
    "| --- | --- | --- |",
    ...converted.map(({ old, connection }) => `| ${old.name} | ${connection} | ${old.file} |`),
    "",
    "Claims, volumes, snapshots and classes of these names stay unchanged. One csimux serves all of these names, and",
    `${options.name} for new volumes: a class of that name selects its connection with the parameter "connection".`,
    ...refused.flatMap(({ file, why }) => ["", `**${file} was not taken over**: ${why}.`]),
    ...converted.flatMap(each => section(each, words.get(each.old.name) ?? [])),
    ...rights(converted),
    ...order(options, converted),
    ...(volumes === undefined ? [] : moving(options, volumes)),
    "",
  ].join("\n");

function section({ old, connection, words }: TakenOverConnection, more: readonly string[]): readonly string[] {
  const all = [...words.map(each => `${connection}.yaml: ${each}`), ...more];
  const title = ["", `## Differences for ${old.name}`, ""];
  return [...title, ...(all.length === 0 ? ["None."] : all.map(each => `- ${each}`))];
}

/** Whether the controller has rights on its node, which democratic-csi's chart does not give it. */
function rights(converted: readonly TakenOverConnection[]): readonly string[] {
  const needy = privilegedBy(converted, { modules }).map(({ connection }) => connection);
  const title = ["", "## Rights of the controller", ""];
  if (needy.length === 0)
    return [
      ...title,
      "It is unprivileged, runs as user 65532 and writes nothing into its image: no connection mounts in it.",
    ];
  const why = `It is privileged, unlike the controller of democratic-csi's chart, for ${needy.join(", ")}: csimux mounts the share itself, or works on the node's own storage.`;
  return [...title, why];
}

const release = ({ release: known }: OldDeployment): string =>
  known === undefined ? "<release> --namespace <namespace>" : `${known.name} --namespace ${known.namespace}`;

/** What installs a chart for the object of a kind. */
const installers: Readonly<Record<string, string>> = { HelmRelease: "Flux", HelmChart: "k3s" };

/** How to remove an old deployment so that nothing installs it again. */
const removal = ({ owner, ...old }: OldDeployment): string =>
  owner === undefined
    ? `\`helm uninstall ${release(old)}\` (if Flux or Argo CD installed it, remove it there instead)`
    : `remove the ${owner.kind} ${owner.name} from Git${owner.kind === "HelmChart" ? " or the servers' manifests, and by kubectl delete helmchart" : ""}, and wait until the pods of ${old.name} are gone; after \`helm uninstall\`, ${installers[owner.kind] ?? "Argo CD"} would install it again`;

const order = (
  { out, image, namespace }: TakeoverOptions,
  converted: readonly TakenOverConnection[],
): readonly string[] => [
  "",
  "## Steps, in this order",
  "",
  "Pods keep running throughout. Between steps 3 and 4 nothing new is mounted, created or deleted.",
  "",
  `1. Read the differences, and review the files.${image === undefined ? " Set csimux's image in controller.yaml and node.yaml." : ""} \`csimux validate --strict ${out}\` must report nothing; with \`--online\` it also logs in to each storage system.`,
  "2. Make a backup: `kubectl get pv,csidrivers,storageclasses,volumesnapshotclasses,volumesnapshotcontents -o yaml > before.yaml`.",
  `3. ${converted.map(({ old }) => removal(old)).join("; ")}. This removes the old drivers, their classes and Secrets, but no volumes.`,
  `4. \`kubectl apply --server-side -k ${out}\` (without \`--server-side\`, kubectl copies the passwords into an annotation), which creates the classes and Secrets again under the same names.`,
  `5. \`kubectl -n ${namespace} rollout status deploy/csimux-controller ds/csimux-node\`, then \`kubectl -n ${namespace} exec deploy/csimux-controller -c csimux -- csimux status\`. \`kubectl get csinodes -o yaml\` must show every name on every node.`,
  `6. Create and delete a claim of each class. To roll back: remove the line namespace.yaml from \`${out}/kustomization.yaml\`, to keep the namespace and everything else in it, then \`kubectl delete -k ${out}\`, and ${converted.every(({ old }) => old.owner) ? "put what was removed back into Git" : "`helm install` with the old values"}.`,
];

const moving = ({ name }: TakeoverOptions, { moved, refused, others }: MovedVolumes): readonly string[] => [
  "",
  `## Volumes under the new name ${name}`,
  "",
  "Optional: volumes work under their old names permanently. To retire an old name, complete all of the above, then move its volumes",
  "one by one, following the steps in the file of each in `persistent-volumes/`. Snapshots stay under the old name, and claims of the",
  "new name cannot be restored from them. When a name has no volumes and snapshots left, remove its --alias, sidecars and classes.",
  "",
  `${moved.length} volumes can be moved; ${others} belong to other drivers.`,
  ...refused.map(each => `- unchanged: ${each}`),
];

/** An output file; `secret`: readable only by its owner. */
export interface OutputFile {
  readonly path: string;
  readonly text: string;
  readonly secret?: true;
}

/** Writes the files into a new or empty folder; never overwrites anything. Throws UsageError. */
export async function writeNew(folder: string, files: readonly OutputFile[]): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    if ((await readdir(folder)).length > 0) throw new UsageError(`the folder ${folder} is not empty; name a new one`);
    for (const { path, text, secret } of files) {
      const file = join(folder, path);
      await mkdir(dirname(file), { recursive: true, mode: 0o700 });
      const handle = await open(file, "wx", secret ? 0o600 : 0o644);
      await handle.writeFile(text).finally(() => handle.close());
    }
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`cannot write ${folder} (${errnoOf(error) ?? String(error)})`);
  }
}
