import type { VolumeStore } from "../store.ts";
import { Layout } from "./layout.ts";
import type { OperationContext } from "./operation-context.ts";
import type { DirectoryStore, VolumeFolder } from "./store.ts";

/** What the stores of a driver's operations are made of. */
export interface OperationParts {
  /** The base folder as the connection's file names it. */
  readonly space: OperationContext;
  /** Finds the base folder of a share; undefined if it is one fixed folder. */
  readonly locate: (() => Promise<string>) | undefined;
  readonly storeOn: (space: OperationContext) => DirectoryStore;
  /** Gives up what the base folder and the tools needed. */
  readonly close: () => Promise<void>;
}

/**
 * A store whose operations each find the base folder once, at their beginning, and keep to it: a share may be mounted elsewhere while
 * another operation is under way, and half of that must not land below another path.
 */
export function eachBegun({ space, locate, storeOn, close }: OperationParts): VolumeStore<VolumeFolder> {
  const given = storeOn(space);
  let hidden = given.hidden();
  const at = async (): Promise<DirectoryStore> => {
    const base = await locate?.();
    const store =
      base === undefined || base === space.layout.base ? given : storeOn({ ...space, layout: new Layout(base) });
    hidden = store.hidden();
    return store;
  };
  return {
    idOf: name => given.idOf(name),
    explain: error => given.explain(error),
    hidden: () => hidden,
    sameSource: (a, b) => given.sameSource(a, b),
    clonesFrom: given.clonesFrom,
    finish: asset => given.finish(asset),
    create: async (spec, call) => (await at()).create(spec, call),
    find: async id => (await at()).find(id),
    remove: async (id, before, call) => (await at()).remove(id, before, call),
    resize: async (asset, bytes) => (await at()).resize(asset, bytes),
    available: async parameters => (await at()).available(parameters),
    list: async (page, call) => (await at()).list(page, call),
    look: async () => (await at()).look(),
    check: async call => (await at()).check(call),
    snapshots: {
      create: async (...given) => (await at()).snapshots.create(...given),
      delete: async (...given) => (await at()).snapshots.delete(...given),
      get: async (...given) => (await at()).snapshots.get(...given),
      list: async (...given) => (await at()).snapshots.list(...given),
    },
    close,
  };
}
