import { unknownFolder } from "../config/proxy.ts";
import { nameOf } from "./document.ts";
import { valuesElsewhere } from "./gitops.ts";
import { type LintInput, listAt, type StoreObject, textAt } from "./lint-input.ts";
import { containersOf, isController, mainFolders, mountedAt } from "./workloads.ts";

type Store = Pick<StoreObject, "kind" | "name">;

/** The Secrets and ConfigMaps in the files, and those that kustomize generates. */
export function storesOf({ stores, kustomizations }: Pick<LintInput, "stores" | "kustomizations">): readonly Store[] {
  const generated = (key: string, kind: Store["kind"]): readonly Store[] =>
    kustomizations
      .flatMap(({ value }) => listAt(value, key))
      .flatMap(each => {
        const name = textAt(each, "name");
        return name === undefined ? [] : [{ kind, name }];
      });
  return [...stores, ...generated("secretGenerator", "Secret"), ...generated("configMapGenerator", "ConfigMap")];
}

/**
 * Parts of the deployments that could not be checked, each in words: encrypted files, and Secrets and ConfigMaps that a workload of csimux
 * mounts and that are not among the files.
 */
export function unseen(all: readonly LintInput[]): readonly string[] {
  const stores = all.flatMap(storesOf);
  const isThere = ({ kind, name }: Store): boolean => stores.some(each => each.kind === kind && each.name === name);
  return [...new Set(all.flatMap(each => [...encrypted(each), ...elsewhere(each), ...missing(each, isThere)]))];
}

function encrypted({ encrypted: files, sealed }: LintInput): readonly string[] {
  const names = files.map(nameOf);
  return [
    ...files.map(
      file => `${file} was not checked: it is encrypted by sops; "csimux validate -" reads the output of sops -d`,
    ),
    ...sealed
      .filter(name => !names.includes(name))
      .map(name => `connection "${name}" was not checked: it is in a SealedSecret; name its file`),
  ];
}

/** Values that Flux or Argo CD takes from other objects and files. */
const elsewhere = ({ releases }: LintInput): readonly string[] =>
  releases
    .flatMap(valuesElsewhere)
    .map(each => `${each} was not checked: name a file with the output of helm get values`);

function missing(input: LintInput, isThere: (store: Store) => boolean): readonly string[] {
  const { main, connections, sealed, workloads, helm } = input;
  const config = main?.read.partial;
  const absent = (all: readonly Store[], content: string): readonly string[] =>
    all
      .filter(each => !isThere(each))
      .map(
        ({ kind, name }) => `${kind} "${name}" with ${content} was not checked: add its manifest, or name its files`,
      );
  if (!main) {
    const named = helm.flatMap(({ value }) => textAt(value, "driver", "existingConfigSecret") ?? []);
    const mounted = mainFolders(workloads).flatMap(each => mountedAt(workloads, each));
    return absent([...mounted, ...named.map(name => ({ kind: "Secret" as const, name }))], "the main file");
  }
  if (connections.length + sealed.length > 0 || !config || config.configFolder === unknownFolder) return [];
  const controllers = workloads.filter(each => containersOf(each).some(isController));
  return absent(mountedAt(controllers, config.configFolder), "the connection files");
}
