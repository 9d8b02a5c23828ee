import { unknownFolder } from "../config/proxy.ts";
import { nameOf } from "./file-name.ts";
import { type LintInput, listAt, textAt } from "./lint-input.ts";
import { containersOf, isController, mainFolders, mountedAt } from "./workloads.ts";

/** A Secret or ConfigMap. */
export interface Store {
  readonly kind: "Secret" | "ConfigMap";
  readonly name: string;
}

/** The Secrets and ConfigMaps that the files hold or have kustomize make. */
export function storesOf({ stores, kustomizations }: Pick<LintInput, "stores" | "kustomizations">): readonly Store[] {
  const made = ([key, kind]: readonly [string, Store["kind"]]) =>
    kustomizations
      .flatMap(({ value }) => listAt(value, key))
      .flatMap(each => {
        const name = textAt(each, "name");
        return name === undefined ? [] : [{ kind, name }];
      });
  return [...stores, ...made(["secretGenerator", "Secret"]), ...made(["configMapGenerator", "ConfigMap"])];
}

/**
 * What belongs to the files and could not be looked at, each in words: files that are encrypted, and the Secret or ConfigMap of a
 * workload of csimux whose manifest is not among them.
 */
export function unseen(worlds: readonly LintInput[]): readonly string[] {
  const stores = worlds.flatMap(storesOf);
  const isThere = ({ kind, name }: Store): boolean => stores.some(each => each.kind === kind && each.name === name);
  return [...new Set(worlds.flatMap(world => [...encrypted(world), ...missing(world, isThere)]))];
}

function encrypted({ encrypted: files, sealed }: LintInput): readonly string[] {
  const names = files.map(nameOf);
  const inObject = sealed.filter(name => !names.includes(name));
  return [
    ...files.map(
      file => `${file} was not looked at: sops has encrypted it; "csimux validate -" reads what sops -d prints`,
    ),
    ...inObject.map(name => `connection "${name}" was not looked at: it is in a SealedSecret; name its file`),
  ];
}

function missing(world: LintInput, isThere: (store: Store) => boolean): readonly string[] {
  const { main, connections, sealed, workloads } = world;
  const config = main?.read.partial;
  const absent = (all: readonly Store[], what: string): readonly string[] =>
    all
      .filter(each => !isThere(each))
      .map(
        ({ kind, name }) => `${kind} "${name}" with ${what} was not looked at: add its manifest, or name what is in it`,
      );
  if (!main) return mainFolders(workloads).flatMap(each => absent(mountedAt(workloads, each), "the main file"));
  if (connections.length + sealed.length > 0 || !config || config.configFolder === unknownFolder) return [];
  const controllers = workloads.filter(each => containersOf(each).some(isController));
  return absent(mountedAt(controllers, config.configFolder), "the connection files");
}
