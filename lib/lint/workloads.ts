import { posix } from "node:path";
import { at, listAt, type ManifestObject, textAt, textOf } from "./lint-input.ts";

/** The containers of a Deployment, DaemonSet or StatefulSet. */
export const containersOf = ({ value }: ManifestObject): readonly unknown[] =>
  listAt(value, "spec", "template", "spec", "containers");

/** The arguments of a container, with variables of its `env` expanded ("$(NAME)", as Kubernetes does). */
export function argsOf(container: unknown): readonly string[] {
  const variables = new Map(
    listAt(container, "env").map(each => [textAt(each, "name") ?? "", textAt(each, "value")] as const),
  );
  const expanded = (text: string): string =>
    text.replace(/\$\(([^)]*)\)/g, (whole, name: string) => variables.get(name) ?? whole);
  return listAt(container, "args").map(each => expanded(textOf(each)));
}

/** The values of an option, as `--option=value` or in the next argument. */
export const valuesOf = (args: readonly string[], option: string): readonly string[] =>
  args.flatMap((arg, index) => {
    if (arg.startsWith(`${option}=`)) return [arg.slice(option.length + 1)];
    return arg === option ? [args[index + 1] ?? ""] : [];
  });

/** Whether the container runs `csimux serve`. */
export const isServing = (container: unknown): boolean => argsOf(container).includes("serve");

/** Whether the container runs `csimux serve` with the controller service. */
export function isController(container: unknown): boolean {
  const modes = valuesOf(argsOf(container), "--mode");
  return isServing(container) && (modes.length === 0 || modes.some(mode => mode.includes("controller")));
}

/** Whether a container is this sidecar of Kubernetes CSI, such as "attacher", by its image or name. */
export const isSidecar = (container: unknown, name: string): boolean =>
  new RegExp(`\\b(?:csi|external)-${name}\\b`).test(textAt(container, "image") ?? "") ||
  new RegExp(`^${name}\\b`).test(textAt(container, "name") ?? "");

/** The driver names served by csimux in these workloads, each with the connection of its alias; undefined: all connections. */
export function servedNames(workloads: readonly ManifestObject[]): ReadonlyMap<string, string | undefined> {
  const names = new Map<string, string | undefined>();
  for (const container of workloads.flatMap(containersOf).filter(isServing)) {
    const args = argsOf(container);
    for (const name of valuesOf(args, "--name")) names.set(name, undefined);
    for (const [name = "", connection] of valuesOf(args, "--alias").map(text => text.split("=")))
      names.set(name, connection);
  }
  return names;
}

/** A Secret or ConfigMap with the workload that mounts it. */
export interface Mounted {
  readonly workload: ManifestObject;
  /** Index in the pod's volumes. */
  readonly index: number;
  readonly kind: "Secret" | "ConfigMap";
  readonly name: string;
}

/** The Secret or ConfigMap that each workload mounts at a folder of its csimux container. */
export function mountedAt(workloads: readonly ManifestObject[], folder: string): readonly Mounted[] {
  return workloads.flatMap(workload =>
    containersOf(workload)
      .filter(isServing)
      .flatMap(container => {
        const above = listAt(container, "volumeMounts").filter(each => covers(textAt(each, "mountPath"), folder));
        const [deepest] = above.sort((a, b) => pathOf(b).length - pathOf(a).length);
        const volumes = listAt(workload.value, "spec", "template", "spec", "volumes");
        const index = volumes.findIndex(each => textAt(each, "name") === textAt(deepest, "name"));
        const found = deepest === undefined ? undefined : objectOf(volumes[index]);
        return found ? [{ workload, index, ...found }] : [];
      }),
  );
}

/** The folders of main files in the containers of csimux. */
export const mainFolders = (workloads: readonly ManifestObject[]): readonly string[] => [
  ...new Set(
    workloads
      .flatMap(containersOf)
      .filter(isServing)
      .flatMap(container => valuesOf(argsOf(container), "--config").map(file => posix.dirname(file))),
  ),
];

const pathOf = (mount: unknown): string => textAt(mount, "mountPath") ?? "";

const covers = (mount: string | undefined, folder: string): boolean =>
  mount !== undefined && `${folder}/`.startsWith(`${mount.replace(/\/+$/, "")}/`);

function objectOf(volume: unknown): Pick<Mounted, "kind" | "name"> | undefined {
  const secret = textAt(volume, "secret", "secretName");
  if (secret !== undefined) return { kind: "Secret", name: secret };
  const map = at(volume, "configMap") === undefined ? undefined : textAt(volume, "configMap", "name");
  return map === undefined ? undefined : { kind: "ConfigMap", name: map };
}

/** Whether a CSIDriver is a patch of kustomize: names of drivers are reversed domain names, those of patches are arbitrary. */
export const isPatch = (name: string): boolean => !name.includes(".");
